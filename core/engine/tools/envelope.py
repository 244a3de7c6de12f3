"""A call as a JSON object: its name and its arguments. Imports no arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO

from core.engine.tools import repairs as kinds
from core.engine.tools.arguments import as_object, decoded, members, read_arguments
from core.engine.tools.calls import Draft, Reading, Steps, T
from core.engine.tools.schema import kinds_map
from core.engine.tools.source import Wait, Written

NAMES = frozenset({"name", "function", "tool_name"})
ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_LABELS = frozenset({"type", "id", "index", "tool_call_id"})


class Envelope:
    """Reads `{"name": …, "arguments": {…}}` and sends the call.

    The call goes out as soon as its name is known, its arguments as they grow. Arguments that come
    before the name wait for it. A name among the arguments is taken out of them, arguments beside
    the name are taken for what they are where the tool's schema has all of them, and OpenAI's
    nesting in `function` is read too. Anything else in the object is damage: the arguments go out
    as the model wrote them then, with all that follows them.
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
        self._depth = 1
        self._name: str | None = None
        self._argued = False
        self._others: list[tuple[str, str]] = []
        self._draft: Draft | None = None
        self._waiting = StringIO()
        self._opened = opened

    def read(self) -> Steps[bool]:
        """Send the call; return whether it was complete. No call: the source still holds it."""
        if not self._opened:
            self._source.take(1)
        good = yield from self._members()
        if self._name is None and good:
            yield from self._lift()
        if self._name is not None:
            return good and (self._argued or (yield from self._beside()))
        if self._draft:
            self._draft.drop()
        return False

    def _members(self) -> Steps[bool]:
        filled = False
        while self._depth:
            yield from self._source.white()
            if (yield from self._source.skip("}")):
                self._depth -= 1
                continue
            if filled and not (yield from self._source.skip(",")):
                return (yield from self._lacks_brackets())
            yield from self._source.white()
            if filled and (yield from self._source.starts("}")):
                self._reading.repairs.add(kinds.TRAILING_COMMA)
                continue
            filled = True
            good = yield from self._member()
            if good is None:
                self._depth, filled = self._depth + 1, False
            elif not good:
                return False
        return True

    def _lacks_brackets(self) -> Wait[bool]:
        """Return whether nothing but closing brackets is missing."""
        if not (yield from self._source.closing(self._reading.ends)):
            return False
        self._reading.repairs.add(kinds.CLOSING_BRACKETS)
        return True

    def _member(self) -> Steps[bool | None]:
        """Read one member; None: it has the others within it."""
        draft = Draft(self._source, verbatim=True)
        name = yield from self._reading.json().key()
        yield from self._source.white()
        key = decoded(name) if name is not None else None
        if self._bare and self._name is None and key not in NAMES | ARGUMENTS | _LABELS:
            key = None
        if key is None or (key in NAMES and self._name is None):
            draft.drop()
            return key is not None and (yield from self._called(key))
        if key in ARGUMENTS and not self._argued:
            return (yield from self._argue(draft))
        return (yield from self._other(name or "", draft))

    def _called(self, key: str) -> Steps[bool | None]:
        """Read the function's name, or what has it within; None: that has begun."""
        if key == "function" and (yield from self._source.skip("{")):
            return None
        name = yield from self._reading.json().text()
        return name is not None and (yield from self._named(name))

    def _named(self, name: str) -> Steps[bool]:
        reading = self._reading
        name = reading.calls.named(name)
        if not reading.calls.known(name) and (self._bare or not reading.plausible(name)):
            return False
        self._name = name
        yield from reading.announce(name, self._draft)
        reading.closers = ("}",) * self._depth + reading.around
        yield from reading.calls.write(self._waiting.getvalue())
        return True

    def _argue(self, draft: Draft) -> Steps[bool]:
        """Read the arguments; they wait for the name."""
        if any(decoded(key) not in _LABELS for key, _ in self._others):
            draft.drop()
            return False
        draft.restart()
        self._adopt(draft)
        self._argued = True
        written = read_arguments(self._reading)
        if self._name is not None:
            return (yield from self._reading.stream(written))
        return (yield from _collect(written, lambda part: self._waiting.write(draft.add(part))))

    def _other(self, key: str, draft: Draft) -> Steps[bool]:
        """Read a member that is neither the name nor the arguments."""
        if self._draft or self._argued:
            draft.drop()
        else:
            self._adopt(draft)
        if self._argued and decoded(key) not in _LABELS:
            return False
        parts: list[str] = []
        good = yield from _collect(self._reading.json().read(), parts.append)
        self._others.append((key, "".join(parts).strip()))
        return good

    def _adopt(self, draft: Draft) -> None:
        """Let the arguments begin with what this one has taken."""
        if self._draft:
            self._draft.drop()
        self._draft = draft
        if self._name is not None:
            self._reading.adopt(draft)

    def _lift(self) -> Steps[None]:
        """Take the name out of the arguments."""
        sent = self._waiting.getvalue()
        written = sent + (self._draft.kept() if self._draft else "")
        if not self._argued or not self._draft or not written.startswith("{"):
            return
        pairs = list(members(written))
        at = next((n for n, (key, _) in enumerate(pairs) if decoded(key) == "name"), None)
        if at is None or not pairs[at][1].startswith('"'):
            return
        name = decoded(pairs.pop(at)[1])
        if not self._reading.calls.known(name):
            return
        self._draft.replace(_inner(pairs), sent)
        self._waiting = StringIO()
        self._reading.repairs.add(kinds.LIFTED_NAME)
        yield from self._named(name)

    def _beside(self) -> Steps[bool]:
        """Send the members beside the name as arguments, if the tool's schema has them all."""
        known = kinds_map(self._reading.calls.parameters(self._name or ""))
        found = []
        for key, value in self._others:
            label = decoded(key)
            if label in known and (label, value) != ("type", '"function"'):
                found.append((key, value))
            elif label not in _LABELS:
                return False
        if found:
            self._reading.repairs.add(kinds.LIFTED_ARGUMENTS)
        yield from self._reading.put(as_object(found))
        return True


def _inner(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the arguments among which the name stood, or those that stood beside it."""
    if len(pairs) == 1 and decoded(pairs[0][0]) in ARGUMENTS and pairs[0][1].startswith("{"):
        return pairs[0][1]
    return as_object(pairs)


def _collect(written: Written[T], take: Callable[[str], object]) -> Wait[T]:
    """Hand on what is written."""
    while True:
        try:
            part = next(written)
        except StopIteration as end:
            result: T = end.value
            return result
        if part is None:
            yield None
        else:
            take(part)
