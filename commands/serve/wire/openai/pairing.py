"""Which call a tool message answers, where ids are missing. Pure; every step is O(1) amortized."""

from __future__ import annotations

from collections import defaultdict, deque


class Pairing:
    """The calls of a conversation so far, and which of them have no result yet."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._answered: set[str] = set()
        self._open = _Queue()
        self._open_unnamed = _Queue()

    def call(self, identity: str | None, name: str, *, otherwise: str) -> str:
        """Note a call and return its id.

        Args:
            identity: as the client sent it; None or empty: it sent none.
            name: of the function.
            otherwise: the id to use then.
        """
        given = identity or otherwise
        self._known.add(given)
        self._answered.discard(given)
        self._open.add(given, name)
        if not identity:
            self._open_unnamed.add(given, name)
        return given

    def result(self, identity: str | None, name: str | None) -> str | None:
        """Note a result and return the id of the call that it answers; None: there is none.

        Without an id it answers the first open call of that name, else the first open call. An
        unknown id can only mean a call that was sent without one.

        Args:
            identity: as the client sent it.
            name: of the function, if the client sent it.
        """
        if identity and identity in self._known:
            found: str | None = identity
        else:
            queue = self._open_unnamed if identity else self._open
            found = queue.first(name, self._answered)
        if found is not None:
            self._answered.add(found)
        return found


class _Queue:
    """Ids in order, and in order by name. Answered ones are dropped when they are reached."""

    def __init__(self) -> None:
        self._all: deque[str] = deque()
        self._named: defaultdict[str, deque[str]] = defaultdict(deque)

    def add(self, identity: str, name: str) -> None:
        self._all.append(identity)
        self._named[name].append(identity)

    def first(self, name: str | None, answered: set[str]) -> str | None:
        named = self._named.get(name) if name is not None else None
        for queue in (named, self._all):
            while queue and queue[0] in answered:
                queue.popleft()
            if queue:
                return queue[0]
        return None
