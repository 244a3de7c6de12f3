"""Arguments as a JSON object, in whichever wrapping. Imports no arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecoder

from core.engine.tools.source import Source, Wait, Written
from core.engine.tools.tolerant import Decoded, JsonReader

_FENCE = re.compile(r"[`\w]+")
_NOTHING = re.compile(r"\w+")
_NOTHINGS = ("null", "None")


def read_object(source: Source) -> Written[bool]:
    """Write the arguments as one JSON object, whatever comes; return whether they were complete.

    An object, an object within a JSON string, either of them in a fence; null and nothing at all
    count as no arguments. Anything else is left to be shown, and the arguments are empty.
    """
    reader = _Once()
    good = yield from _any_form(source, reader)
    if not reader.used:
        yield "{}"
    if good:
        source.settle()
    return good


def skip_fence(source: Source) -> Wait[None]:
    """Read the beginning of a fence (three backticks and a word)."""
    yield from source.white()
    if (yield from source.starts("```")):
        yield from source.skip_run(_FENCE)
        yield from source.white()


class _Once:
    """Remembers whether anything was written."""

    used = False

    def pass_on(self, written: Written[bool]) -> Written[bool]:
        while True:
            try:
                part = next(written)
            except StopIteration as end:
                good: bool = end.value
                return good
            self.used = self.used or part is not None
            yield part


def _any_form(source: Source, once: _Once) -> Written[bool]:
    yield from skip_fence(source)
    first = yield from source.peek()
    if first == "{":
        return (yield from once.pass_on(JsonReader(source).read()))
    if first in {'"', "'"}:
        return (yield from _within_string(source, source.take(1), once))
    word = yield from source.ahead(_NOTHING, 4)
    if word in _NOTHINGS or (word and (yield from _is_cut(source, word))):
        source.take(len(word))
        return True
    return first in {"", "}"}


def _is_cut(source: Source, word: str) -> Wait[bool]:
    """Tell whether the answer ends in the middle of a word that stands for no arguments."""
    ahead = yield from source.peek(len(word) + 1)
    return ahead == word and any(nothing.startswith(word) for nothing in _NOTHINGS)


def _within_string(source: Source, quote: str, once: _Once) -> Written[bool]:
    text = Decoded(source, quote)
    if not (yield from text.peek()):
        return text.closed
    yield from skip_fence(text)
    good = True
    if (yield from text.peek()):
        good = (yield from text.peek()) == "{" and (
            yield from once.pass_on(JsonReader(text).read())
        )
    yield from text.white()
    if not good or (yield from text.peek()):
        text.give_up()
        return False
    source.settle()
    return text.closed


def members(written: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and the values, as JSON, of a compact JSON object."""
    decoder = JSONDecoder()
    at = 1
    while at < len(written) - 1:
        key, at = decoder.raw_decode(written, at)
        _, end = decoder.raw_decode(written, at + 1)
        yield key, written[at + 1 : end]
        at = end + 1
