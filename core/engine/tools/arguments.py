"""Arguments as a JSON object, in whichever wrapping. Imports no arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from json import JSONDecoder
from typing import TYPE_CHECKING

from core.engine.tools import repairs as kinds
from core.engine.tools.source import Source, Wait, Written
from core.engine.tools.tolerant import JsonReader, whole

if TYPE_CHECKING:
    from core.engine.tools.calls import Reading

_FENCE = re.compile(r"[`\w]+")
_FENCE_END = re.compile(r"`+")
_NOTHING = re.compile(r"\w+")
_NOTHINGS = ("null", "None")
_SPACE = re.compile(r"\s*")


def read_arguments(reading: Reading, *, optional: bool = False) -> Written[bool]:
    """Write the arguments as JSON; return whether they were complete.

    A string is taken for the text of the arguments, as OpenAI writes them; null counts as no
    arguments.

    Args:
        reading: the text and the calls.
        optional: whether nothing at all counts as no arguments, too.
    """
    source = reading.source
    yield from source.white()
    if (yield from source.peek()) in {'"', "'"}:
        return (yield from _within_string(reading))
    word = yield from source.ahead(_NOTHING, 4)
    if word in _NOTHINGS:
        source.take(len(word))
    elif not (optional and (yield from source.closing(reading.ends))):
        return (yield from reading.json().read())
    yield "{}"
    return True


def skip_fence(source: Source) -> Wait[bool]:
    """Read the beginning of a fence (three backticks and a word); return whether there was one."""
    yield from source.white()
    if not (yield from source.starts("```")):
        return False
    yield from source.skip_run(_FENCE)
    yield from source.white()
    return True


def skip_fence_end(source: Source) -> Wait[None]:
    """Read the end of a fence, if it comes next."""
    yield from source.white()
    yield from source.skip_run(_FENCE_END)


def _within_string(reading: Reading) -> Written[bool]:
    """Write what a string holds, once all of it is there."""
    found = set[str]()
    text = yield from JsonReader(reading.source, repairs=found).text()
    if text is None or not _is_encodable(text):
        return False
    reading.repairs |= found
    inner = set[str]()
    written = whole(_unfenced(text, inner), inner)
    if written is not None:
        reading.repairs |= inner
        text = written
    yield text.strip() or "{}"
    return True


def _unfenced(text: str, repairs: set[str]) -> str:
    body = text.strip()
    if not body.startswith("```"):
        return body
    repairs.add(kinds.CODE_FENCE)
    return body[_end(_FENCE, body) :].rstrip().removesuffix("```")


def _is_encodable(text: str) -> bool:
    """Return whether a text is free of lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def members(written: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and the values of a JSON object, all of them as JSON."""
    decoder = JSONDecoder()
    at = _end(_SPACE, written, 1)
    while written[at] != "}":
        _, end = decoder.raw_decode(written, at)
        key = written[at:end]
        at = _end(_SPACE, written, _end(_SPACE, written, end) + 1)
        _, end = decoder.raw_decode(written, at)
        yield key, written[at:end]
        at = _end(_SPACE, written, end)
        if written[at] == ",":
            at = _end(_SPACE, written, at + 1)


def as_object(pairs: Sequence[tuple[str, str]]) -> str:
    """Return a JSON object of keys and values, all of them JSON."""
    return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"


def decoded(key: str) -> str:
    """Return the text of a JSON string."""
    return str(json.loads(key))


def _end(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start
