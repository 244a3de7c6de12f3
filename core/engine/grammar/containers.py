"""Objects and arrays with limits, as rules. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.engine.grammar.ebnf import repeat
from core.engine.grammar.screen import NothingMatches

if TYPE_CHECKING:
    from core.engine.grammar.ebnf import Writer

_MOST_COUNTED = 5_000
"""Places times counts: more than that is not counted."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """What an object may hold."""

    named: tuple[tuple[str, bool], ...]
    """Named properties in their order, each with whether it must come."""
    others: str | None
    """Any other property; None: there is none."""
    least: int
    """How many properties there are at least."""
    most: int | None
    """How many there are at most; None: there is no limit."""


def items(
    writer: Writer,
    first: list[str],
    rest: str | None,
    limits: tuple[int, int | None],
    comma: str,
) -> str:
    """Return what stands between the brackets of an array.

    Args:
        writer: of the grammar.
        first: what stands at the first places.
        rest: what stands at all others; None: nothing.
        limits: how many there are at least and at most.
        comma: stands between two.

    Raises:
        NothingMatches: so many cannot be.
    """
    least, most = limits
    if most is not None:
        first = first[:most]
    room = 0 if rest is None else None if most is None else most - len(first)
    if (room is not None and least > len(first) + room) or (most is not None and most < least):
        raise NothingMatches("nothing matches the schema")
    tail = _rest_of(rest, max(0, least - len(first)), room, comma, begun=bool(first))
    for place in range(len(first) - 1, -1, -1):
        lead = f"{comma} " if place else ""
        body = f"{lead}{first[place]} {tail}"
        tail = writer.rule(body if place < least else f'{body} | ""')
    return f"{tail} {comma.split(chr(34), maxsplit=1)[0]}"


def _rest_of(one: str | None, least: int, most: int | None, comma: str, *, begun: bool) -> str:
    """Return any number of the same, with commas between them."""
    if one is None or most == 0:
        return '""'
    more = f"({comma} {one})"
    if begun:
        return repeat(more, least, most)
    several = f"({one} {repeat(more, max(0, least - 1), None if most is None else most - 1)})"
    return several if least else f"{several}?"


def members(writer: Writer, pairs: Pairs, comma: str, unenforced: set[str]) -> str:
    """Return what stands between the braces of an object.

    Args:
        writer: of the grammar.
        pairs: what it may hold.
        comma: stands between two.
        unenforced: gets the limits that are not counted.

    Raises:
        NothingMatches: so many cannot be.
    """
    pairs, cap = _counted(pairs, unenforced)
    # Of each count so far: what may follow the place that was looked at; None: nothing can.
    follow: list[str | None] = [_tail(pairs, count, comma) for count in range(cap + 1)]
    for place in range(len(pairs.named) - 1, -1, -1):
        pair, is_required = pairs.named[place]
        here: list[str | None] = []
        for count in range(min(cap, place) + 1):
            after = follow[min(count + 1, cap)]
            lead = f"{comma} " if count else ""
            is_full = pairs.most is not None and count >= pairs.most
            options = [f"{lead}{pair} {after}"] if after is not None and not is_full else []
            if not is_required and follow[count] is not None:
                options.append(str(follow[count]))
            here.append(writer.rule(" | ".join(options)) if options else None)
        follow = here
    if follow[0] is None:
        raise NothingMatches("nothing matches the schema")
    return f"{follow[0]} {comma.split(chr(34), maxsplit=1)[0]}"


def _counted(pairs: Pairs, unenforced: set[str]) -> tuple[Pairs, int]:
    """Return the pairs with the limits that matter, and how far they are counted."""
    needed = sum(is_required for _, is_required in pairs.named)
    least = 0 if pairs.least <= needed else pairs.least
    most = pairs.most
    if most is not None and pairs.others is None and most >= len(pairs.named):
        most = None
    cap = max(1, least, most or 0)
    if (cap + 1) * (len(pairs.named) + 1) > _MOST_COUNTED and pairs.named:
        unenforced.update(
            word for word, limit in (("minProperties", least), ("maxProperties", most)) if limit
        )
        least, most, cap = 0, None, 1
    # A name that comes twice counts once, and a grammar cannot see that.
    if pairs.others is not None and least > max(1, needed + 1):
        unenforced.add("minProperties")
    if not pairs.named:
        cap = 0
    return Pairs(named=pairs.named, others=pairs.others, least=least, most=most), cap


def _tail(pairs: Pairs, count: int, comma: str) -> str | None:
    """Return properties that are not named, behind so many others; None: nothing fits."""
    least = max(0, pairs.least - count)
    most = None if pairs.most is None else pairs.most - count
    if most is not None and (most < 0 or most < least):
        return None
    if pairs.others is None:
        return None if least else '""'
    return _rest_of(pairs.others, least, most, comma, begun=count > 0)
