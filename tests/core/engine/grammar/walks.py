"""Random schemas, and random texts that their grammars allow."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from core.engine.grammar import CompiledForm
from core.engine.grammar.build import new_mask
from tests.core.engine.grammar.conftest import EOS, VOCABULARY

FORMATS = (
    "date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "uuid", "json-pointer", "relative-json-pointer", "uri-template", "iri",
)  # fmt: skip
_PATTERNS = ("^[a-c]+$", "b", "^a.*c$", r"^\d{2}-\w$", "^(x|yz){1,3}$", '^"', "[^a]$")
_VALUES = (1, 2.5, True, None, "a", "b<", 'q"', [1], {"k": "v"}, -3)


def schema(draw: random.Random, depth: int = 3) -> Any:
    """Return a schema that is likely to be possible."""
    kinds = [_number, _string, _values, _string, _number]
    if depth:
        kinds += [_object, _array, _choice, _all, _object]
    return draw.choice(kinds)(draw, depth - 1)


def _number(draw: random.Random, depth: int) -> Any:
    made: dict[str, Any] = {"type": draw.choice(["integer", "number"])}
    if draw.random() < 0.5:
        made["minimum" if draw.random() < 0.5 else "exclusiveMinimum"] = draw.randrange(-50, 5)
    if draw.random() < 0.5:
        made[draw.choice(["maximum", "exclusiveMaximum"])] = draw.randrange(9, 300) / 2
    if draw.random() < 0.3:
        made["multipleOf"] = draw.choice([2, 3, 7, 0.5])
    return made


def _string(draw: random.Random, depth: int) -> Any:
    made: dict[str, Any] = {"type": "string"}
    if draw.random() < 0.4:
        made["pattern"] = draw.choice(_PATTERNS)
    elif draw.random() < 0.4:
        made["format"] = draw.choice(FORMATS)
    if draw.random() < 0.4 and "format" not in made:
        made["minLength"] = draw.randrange(3)
        made["maxLength"] = draw.randrange(4, 9)
    if draw.random() < 0.2 and "format" not in made:
        made["not"] = draw.choice([{"enum": ["a", "bb"]}, {"pattern": "c"}])
    return made


def _values(draw: random.Random, depth: int) -> Any:
    made: dict[str, Any] = {"enum": draw.sample(_VALUES, 4)}
    if draw.random() < 0.4:
        made["not"] = {"enum": made["enum"][:2]}
    return made


def _object(draw: random.Random, depth: int) -> Any:
    names = draw.sample(["a", "b", "x-y", "é", 'q"', "long name"], draw.randrange(5))
    made: dict[str, Any] = {
        "type": "object",
        "properties": {name: schema(draw, depth) for name in names},
        "required": [name for name in names if draw.random() < 0.4],
    }
    if draw.random() < 0.4:
        made["additionalProperties"] = draw.choice([True, False, schema(draw, 0)])
    if draw.random() < 0.2:
        made["patternProperties"] = {draw.choice(["^a", "b$"]): schema(draw, 0)}
    if draw.random() < 0.2:
        made["maxProperties"] = len(made["required"]) + 1
    if draw.random() < 0.2:
        made["minProperties"] = 1
    return made


def _array(draw: random.Random, depth: int) -> Any:
    made: dict[str, Any] = {"type": "array", "items": schema(draw, depth)}
    if draw.random() < 0.4:
        made["prefixItems"] = [schema(draw, 0) for _ in range(draw.randrange(3))]
    if draw.random() < 0.5:
        made |= {"minItems": draw.randrange(2), "maxItems": draw.randrange(2, 4)}
    return made


def _choice(draw: random.Random, depth: int) -> Any:
    made: dict[str, Any] = {"anyOf": [schema(draw, depth) for _ in range(2)]}
    if draw.random() < 0.3:
        made |= {"maxLength": 5, "maximum": 20, "maxItems": 2}
    return made


def _all(draw: random.Random, depth: int) -> Any:
    one, other = _object(draw, depth), _object(draw, depth)
    other.pop("type")
    return {"allOf": [one, other]} | (
        {"unevaluatedProperties": False} if draw.random() < 0.5 else {}
    )


def walk(form: CompiledForm, draw: random.Random, longest: int = 600) -> bytes | None:
    """Return a random text of a form; None: it did not end in time."""
    row = form.start()
    mask = new_mask(VOCABULARY)
    out = bytearray()
    while len(out) < longest:
        mask[:] = -1
        assert row.fill(mask, 0), row.lost
        allowed = np.flatnonzero(np.unpackbits(mask[0].view(np.uint8), bitorder="little"))
        if EOS in allowed and (len(allowed) == 1 or draw.random() < 0.3):
            return bytes(out)
        byte = _byte(draw, [int(token) for token in allowed if token < EOS], late=len(out) > 150)
        row.accept(byte)
        assert row.lost is None, out
        out.append(byte)
        if row.complete:
            return bytes(out)
    return None


def _byte(draw: random.Random, allowed: list[int], *, late: bool) -> int:
    closing = [byte for byte in allowed if chr(byte) in '"}]<,']
    if closing and draw.random() < (0.8 if late else 0.3):
        return draw.choice(closing)
    plain = [byte for byte in allowed if chr(byte) in 'abcxyz0123456789.-"\\<\n']
    return draw.choice(plain if plain and draw.random() < 0.6 else allowed)
