"""Regular languages that can be joined, cut and counted. Pure; every step is bounded.

Letters: S states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, TypeVar

from core.engine.grammar import codepoints as cp
from core.engine.grammar.regex import Chars, Choice, Node, Repeat, Run
from core.engine.grammar.screen import NotPossible

_MOST_STATES = 800
_MOST_PARTS = 6_000
_MOST_EDGES = 60_000
_MOST_WORK = 400_000

State = TypeVar("State")
Edges: TypeAlias = tuple[tuple[cp.Ranges, int], ...]
"""Characters and the state that they lead to; no character leads to two."""


class TooComplex(NotPossible):
    """A language with too many states to compute."""


@dataclass(frozen=True, kw_only=True)
class Automaton:
    """A deterministic automaton. A character without an edge ends in failure."""

    edges: tuple[Edges, ...]
    """Of each of the S states; 0 is the first one."""
    accepting: frozenset[int]
    """States in which a text may end."""

    @property
    def is_empty(self) -> bool:
        """Whether no text matches; known of trimmed automata, as all here are."""
        return not self.accepting

    def matches(self, text: str) -> bool:
        """Return whether a text belongs to the language."""
        state = 0
        for character in text:
            code = ord(character)
            after = (
                target
                for ranges, target in self.edges[state]
                if any(first <= code <= last for first, last in ranges)
            )
            state = next(after, -1)
            if state < 0:
                return False
        return state in self.accepting


def from_regex(node: Node) -> Automaton:
    """Return the automaton of a tree.

    Raises:
        TooComplex: it would have too many states.
    """
    nfa = _Nfa()
    end = nfa.add(node, 0)

    def edges(states: frozenset[int]) -> Iterable[tuple[cp.Ranges, frozenset[int]]]:
        nfa.spend(len(states))
        return _split([edge for state in states for edge in nfa.edges[state]], nfa.close)

    return build(nfa.close([0]), edges, lambda states: end in states)


def from_words(words: Iterable[str]) -> Automaton:
    """Return the automaton of some texts."""
    tries: dict[str, dict[str, None]] = {"": {}}
    texts = set(words)
    for word in texts:
        for length in range(len(word)):
            tries.setdefault(word[:length], {})[word[: length + 1]] = None
            tries.setdefault(word[: length + 1], {})
            if len(tries) > _MOST_PARTS:
                raise TooComplex("the schema lists too many texts")
    return build(
        "",
        lambda prefix: [(cp.one_of(longer[-1]), longer) for longer in tries[prefix]],
        texts.__contains__,
    )


def without(words: Iterable[str]) -> Automaton:
    """Return the automaton of all texts without any of the given ones, none of them empty."""
    words = tuple(words)
    prefixes = {word[:length] for word in words for length in range(len(word))}

    def edges(prefix: str) -> list[tuple[cp.Ranges, str]]:
        signs = sorted({word[len(p)] for p in prefixes for word in words if word.startswith(p)})
        found = [(cp.complement(cp.one_of("".join(signs))), "")]
        for sign in signs:
            text = prefix + sign
            if not any(text.endswith(word) for word in words):
                rest = next(text[n:] for n in range(len(text) + 1) if text[n:] in prefixes)
                found.append((cp.one_of(sign), rest))
        return found

    return build("", edges, lambda _prefix: True)


def both(one: Automaton, other: Automaton) -> Automaton:
    """Return the texts that belong to two languages."""

    def edges(pair: tuple[int, int]) -> list[tuple[cp.Ranges, tuple[int, int]]]:
        return [
            (cp.intersection(ours, theirs), (a, b))
            for ours, a in one.edges[pair[0]]
            for theirs, b in other.edges[pair[1]]
        ]

    return build(
        (0, 0), edges, lambda pair: pair[0] in one.accepting and pair[1] in other.accepting
    )


def opposite(one: Automaton) -> Automaton:
    """Return all other texts."""

    def edges(state: int) -> list[tuple[cp.Ranges, int]]:
        if state < 0:
            return [(cp.ANY, -1)]
        used = cp.union([ranges for ranges, _ in one.edges[state]])
        return [*one.edges[state], (cp.complement(used), -1)]

    return build(0, edges, lambda state: state not in one.accepting)


def of_length(one: Automaton, least: int, most: int | None) -> Automaton:
    """Return the texts of a language that have so many characters."""
    last = least if most is None else most + 1

    def edges(place: tuple[int, int]) -> list[tuple[cp.Ranges, tuple[int, int]]]:
        state, length = place
        if most is not None and length == most:
            return []
        return [(ranges, (to, min(length + 1, last))) for ranges, to in one.edges[state]]

    return build((0, 0), edges, lambda place: place[0] in one.accepting and place[1] >= least)


def build(
    start: State,
    edges: Callable[[State], Iterable[tuple[cp.Ranges, State]]],
    accepts: Callable[[State], bool],
) -> Automaton:
    """Return the automaton that begins in a state, without what leads nowhere.

    Args:
        start: the first state; any value that can be hashed.
        edges: returns where a state leads.
        accepts: returns whether a text may end in a state.

    Raises:
        TooComplex: there are too many states.
    """
    numbers = {start: 0}
    waiting, found, total = [start], [], 0
    for state in waiting:
        here: list[tuple[cp.Ranges, int]] = []
        for ranges, target in edges(state):
            if not ranges:
                continue
            if target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
            here.append((ranges, numbers[target]))
        total += len(here)
        if len(numbers) > _MOST_STATES or total > _MOST_EDGES:
            raise TooComplex("its texts have too many forms")
        found.append(here)
    return _trimmed(found, {numbers[state] for state in waiting if accepts(state)})


def _trimmed(edges: list[list[tuple[cp.Ranges, int]]], accepting: set[int]) -> Automaton:
    """Leave out states from which no text can end."""
    sources: list[list[int]] = [[] for _ in edges]
    for state, here in enumerate(edges):
        for _, target in here:
            sources[target].append(state)
    alive, waiting = set(accepting), list(accepting)
    while waiting:
        for source in sources[waiting.pop()]:
            if source not in alive:
                alive.add(source)
                waiting.append(source)
    numbers = {state: n for n, state in enumerate(sorted(alive | {0}))}
    return Automaton(
        edges=tuple(
            _joined((ranges, numbers[to]) for ranges, to in edges[state] if to in alive)
            for state in numbers
        ),
        accepting=frozenset(numbers[state] for state in accepting),
    )


def _joined(edges: Iterable[tuple[cp.Ranges, int]]) -> Edges:
    """Join edges that lead to the same state."""
    by_target: dict[int, list[cp.Ranges]] = {}
    for ranges, target in edges:
        by_target.setdefault(target, []).append(ranges)
    return tuple((cp.union(sets), target) for target, sets in by_target.items())


def _split(
    edges: list[tuple[cp.Ranges, int]], close: Callable[[Iterable[int]], frozenset[int]]
) -> Iterable[tuple[cp.Ranges, frozenset[int]]]:
    """Return edges that do not overlap, each to all states that its characters lead to."""
    marks: dict[int, list[tuple[int, bool]]] = {}
    for ranges, target in edges:
        for first, last in ranges:
            marks.setdefault(first, []).append((target, True))
            marks.setdefault(last + 1, []).append((target, False))
    open_: dict[int, int] = {}
    found: dict[frozenset[int], list[cp.Ranges]] = {}
    places = sorted(marks)
    for place, following in pairwise(places):
        for target, begins in marks[place]:
            open_[target] = open_.get(target, 0) + (1 if begins else -1)
        now = frozenset(target for target, count in open_.items() if count > 0)
        if now:
            found.setdefault(now, []).append(((place, following - 1),))
    return [(cp.union(sets), close(targets)) for targets, sets in found.items()]


class _Nfa:
    """An automaton in which a character may lead to several states, or none is needed."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[cp.Ranges, int]]] = [[]]
        self._free: list[list[int]] = [[]]
        self._spent = 0

    def spend(self, work: int) -> None:
        """Count work.

        Raises:
            TooComplex: it was too much.
        """
        self._spent += work
        if self._spent > _MOST_WORK:
            raise TooComplex("its texts have too many forms")

    def add(self, node: Node, start: int) -> int:
        """Add a tree behind a state; return the state behind it."""
        if isinstance(node, Chars):
            end = self._state()
            self.edges[start].append((node.ranges, end))
            return end
        if isinstance(node, Run):
            for part in node.parts:
                start = self.add(part, start)
            return start
        if isinstance(node, Choice):
            return self._join([self.add(option, start) for option in node.options])
        if isinstance(node, Repeat):
            return self._repeat(node, start)
        raise NotPossible("the regex has an anchor that is not at an end of it")

    def close(self, states: Iterable[int]) -> frozenset[int]:
        """Return the states and all that they lead to without a character."""
        found = set(states)
        waiting = list(found)
        self.spend(len(waiting))
        while waiting:
            for target in self._free[waiting.pop()]:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)

    def _repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self.add(node.node, start)
        if node.most is None:
            loop = self._state()
            self._free[start].append(loop)
            self._free[self.add(node.node, loop)].append(loop)
            return self._join([loop])
        ends = [start]
        for _ in range(node.most - node.least):
            start = self.add(node.node, self._join([start]))
            ends.append(start)
        return self._join(ends)

    def _join(self, ends: list[int]) -> int:
        end = self._state()
        for one in ends:
            self._free[one].append(end)
        return end

    def _state(self) -> int:
        self.edges.append([])
        self._free.append([])
        if len(self.edges) > _MOST_PARTS:
            raise TooComplex("its texts have too many forms")
        return len(self.edges) - 1
