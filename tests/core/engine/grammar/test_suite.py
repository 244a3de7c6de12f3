"""The JSON Schema Test Suite: what is enforced lets nothing invalid through.

The schemas in `suite/` are those of the suite (draft 2020-12, MIT, `suite/LICENSE`), as the source
package of `jsonschema` 4.26 carries them, without those that test references to other documents,
dynamic references, anchors, content and vocabularies.

Everything is enforced but `if`, `contains`, `dependent…`, most of `not`, `oneOf` whose branches are
not plainly disjoint, `uniqueItems` and references to other documents; those are reported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.engine.grammar import CompiledForm, Grammars, NotEnforced
from core.engine.request import GrammarSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

SUITE = Path(__file__).parent / "suite"

# Of each keyword's schemas: those that are enforced in full, enforced in part, and not at all. The
# last match nothing, or name what they refer to by its `$id`.
EXPECTED = {
    "additionalProperties": [8, 1, 0],
    "allOf": [10, 0, 2],
    "anyOf": [7, 0, 1],
    "boolean_schema": [1, 0, 1],
    "const": [15, 0, 0],
    "contains": [0, 7, 0],
    "default": [3, 0, 0],
    "defs": [0, 1, 0],
    "dependentRequired": [0, 4, 0],
    "dependentSchemas": [0, 4, 0],
    "enum": [14, 0, 0],
    "exclusiveMaximum": [1, 0, 0],
    "exclusiveMinimum": [1, 0, 0],
    "format": [18, 1, 0],
    "if-then-else": [2, 8, 0],
    "infinite-loop-detection": [1, 0, 0],
    "items": [10, 0, 0],
    "maxItems": [2, 0, 0],
    "maxLength": [2, 0, 0],
    "maxProperties": [3, 0, 0],
    "maximum": [2, 0, 0],
    "minItems": [2, 0, 0],
    "minLength": [2, 0, 0],
    "minProperties": [2, 0, 0],
    "minimum": [2, 0, 0],
    "multipleOf": [4, 1, 0],
    "not": [2, 5, 2],
    "oneOf": [2, 8, 1],
    "pattern": [2, 0, 0],
    "patternProperties": [5, 0, 0],
    "prefixItems": [4, 0, 0],
    "properties": [6, 0, 0],
    "propertyNames": [6, 0, 0],
    "ref": [20, 12, 3],
    "required": [5, 0, 0],
    "type": [11, 0, 0],
    "unevaluatedItems": [19, 8, 0],
    "unevaluatedProperties": [30, 11, 0],
    "uniqueItems": [3, 3, 0],
}


def groups(keyword: str) -> Iterator[dict[str, Any]]:
    yield from json.loads((SUITE / f"{keyword}.json").read_text())


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def accepts(form: CompiledForm, text: bytes) -> bool:
    """Return whether a text may come and may end there."""
    row = form.start()
    for byte in text:
        row.accept(byte)
    return row.lost is None and row._matcher.is_completed()


@pytest.fixture(autouse=True)
def no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the suite's schemas for harmless: a process for each would take a minute."""
    monkeypatch.setattr("core.engine.grammar.compiler.try_out", lambda _plan, _tokens: None)


@pytest.mark.parametrize("keyword", sorted(file.stem for file in SUITE.glob("*.json")))
@pytest.mark.parametrize("strict", [True, False])
def test_nothing_invalid_passes(grammars: Grammars, keyword: str, strict: bool) -> None:
    counts = [0, 0, 0]
    for group in groups(keyword):
        spec = GrammarSpec(
            kind="json_schema", source=group["schema"], any_whitespace=False, strict=strict
        )
        form = grammars.prepare(spec)
        if isinstance(form, NotEnforced):
            counts[2] += 1
            continue
        counts[bool(form.unenforced)] += 1
        for case in group["tests"]:
            if not form.unenforced and not case["valid"]:
                assert not accepts(form, compact(case["data"])), (group["schema"], case)
    if strict:
        assert counts == EXPECTED[keyword]


def test_what_is_valid_passes_as_far_as_a_grammar_can_say(grammars: Grammars) -> None:
    """Order of properties, `1.0` as an integer and values of other types are what is lost."""
    accepted = valid = 0
    for keyword in ("enum", "const", "items", "type", "anyOf", "prefixItems", "maximum"):
        for group in groups(keyword):
            form = grammars.prepare(
                GrammarSpec(kind="json_schema", source=group["schema"], any_whitespace=False)
            )
            if isinstance(form, CompiledForm):
                cases = [case["data"] for case in group["tests"] if case["valid"]]
                valid += len(cases)
                accepted += sum(accepts(form, compact(data)) for data in cases)
    assert accepted > 0.8 * valid
