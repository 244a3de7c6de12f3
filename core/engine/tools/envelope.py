"""A call as a JSON object: its name and its arguments. Imports no arrays."""

from __future__ import annotations

import json
import re

from core.engine.tools.arguments import members, read_object
from core.engine.tools.calls import Reading, Steps, T
from core.engine.tools.source import Written
from core.engine.tools.tolerant import JsonReader, quoted

NAMES = frozenset({"name", "function", "tool_name"})
ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_LABELS = frozenset({"type", "id", "index", "tool_call_id"})
_SEPARATORS = re.compile(r"[\s,]+")


class Envelope:
    """Reads `{"name": …, "arguments": {…}}` and sends the call.

    The call goes out as soon as its name is known, its arguments as they grow. Arguments that come
    before the name wait for it. A name among the arguments is taken out of them, arguments beside
    the name are taken for what they are where the tool's schema has them, and OpenAI's nesting in
    `function` is read too.
    """

    def __init__(self, reading: Reading, *, bare: bool = False, opened: bool = False) -> None:
        """Read from the opening brace.

        Args:
            reading: the text and the calls.
            bare: no marker came before: only a known tool in the usual fields is a call.
            opened: the brace was read.
        """
        self._reading = reading
        self._source = reading.source
        self._bare = bare
        self._name: str | None = None
        self._arguments: str | None = None
        self._others: list[tuple[str, str]] = []
        self._sent = False
        self._opened = opened

    def read(self) -> Steps[bool]:
        """Send the call; return whether it was complete. No call: the source still holds it."""
        if not self._opened:
            self._source.take(1)
        good = yield from self._members()
        if self._name is None and good:
            yield from self._lift()
        if self._name is None:
            return False
        if not self._sent:
            yield from self._reading.calls.write(self._arguments or self._beside())
        if good:
            self._source.settle()
        return good

    def _members(self) -> Steps[bool]:
        depth = 1
        while depth:
            yield from self._source.skip_run(_SEPARATORS)
            if (yield from self._source.skip("}")):
                depth -= 1
                continue
            key = yield from self._key()
            if key is None:
                return False
            if key == "function" and (yield from self._source.skip("{")):
                depth += 1
            elif not (yield from self._value(key)):
                return False
        return True

    def _key(self) -> Steps[str | None]:
        key = yield from JsonReader(self._source).key()
        yield from self._source.white()
        if self._bare and self._name is None and key not in NAMES | ARGUMENTS | _LABELS:
            return None
        return key

    def _value(self, key: str) -> Steps[bool]:
        if key in NAMES and self._name is None:
            name = yield from JsonReader(self._source).text()
            return name is not None and (yield from self._named(name))
        if key in ARGUMENTS and not self._sent and self._arguments is None:
            return (yield from self._argue())
        good, value = yield from _collect(JsonReader(self._source).read())
        self._others.append((key, value))
        return good

    def _named(self, name: str) -> Steps[bool]:
        calls = self._reading.calls
        name = calls.named(name)
        if not calls.known(name) and (self._bare or not self._reading.plausible(name)):
            return False
        self._name = name
        yield from self._reading.announce(name)
        if self._arguments is not None:
            yield from calls.write(self._arguments)
            self._sent = True
        return True

    def _argue(self) -> Steps[bool]:
        if self._name is None:
            good, self._arguments = yield from _collect(read_object(self._source))
            return good
        self._sent = True
        return (yield from self._reading.stream(read_object(self._source)))

    def _lift(self) -> Steps[None]:
        """Take the name out of the arguments."""
        inner = dict(members(self._arguments or "{}"))
        name = inner.pop("name", "null")
        if not name.startswith('"') or not self._reading.calls.known(json.loads(name)):
            return
        only = next(iter(inner), "")
        if len(inner) == 1 and only in ARGUMENTS and inner[only].startswith("{"):
            self._arguments = inner[only]
        else:
            self._arguments = _object(inner.items())
        yield from self._named(json.loads(name))

    def _beside(self) -> str:
        """Return the members beside the name that the tool's schema has as its arguments."""
        schema = self._reading.calls.parameters(self._name or "")
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        return _object([(key, value) for key, value in self._others if key in known and value])


def _object(pairs: object) -> str:
    return "{" + ",".join(f"{quoted(key)}:{value}" for key, value in pairs) + "}"  # type: ignore[attr-defined]


def _collect(written: Written[T]) -> Steps[tuple[T, str]]:
    """Keep what is written."""
    parts: list[str] = []
    while True:
        try:
            part = next(written)
        except StopIteration as end:
            return end.value, "".join(parts)
        if part is None:
            yield None
        else:
            parts.append(part)
