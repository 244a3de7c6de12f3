"""Numbers within limits, as automata over their digits. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from core.engine.grammar import codepoints as cp
from core.engine.grammar.automaton import Automaton, TooComplex, build
from core.engine.grammar.screen import NothingMatches, NotPossible

_MOST_DIGITS = 20
"""Digits of a whole number that has no limit: as many as 64 bits take."""
_PRECISE = 15
"""Digits that a double keeps."""
_MOST_STEP = 100_000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Which numbers are meant."""

    low: Decimal | None = None
    """Least value; None: there is none."""
    low_open: bool = False
    """Whether the least value itself is left out."""
    high: Decimal | None = None
    """Greatest value; None: there is none."""
    high_open: bool = False
    """Whether the greatest value itself is left out."""
    step: Decimal | None = None
    """What they are multiples of, above 0; None: anything."""
    whole: bool = False
    """Whether they are whole numbers."""


def limits_of(ready: dict[str, Any]) -> Limits:
    """Return the limits of a number schema.

    Raises:
        NotPossible: one of them is malformed.
    """
    low, low_open = _edge(ready, "minimum", "exclusiveMinimum", max)
    high, high_open = _edge(ready, "maximum", "exclusiveMaximum", min)
    step = _decimal(ready["multipleOf"]) if "multipleOf" in ready else None
    if step is not None and step <= 0:
        raise NotPossible("the schema is malformed")
    limits = Limits(
        low=low, low_open=low_open, high=high, high_open=high_open, step=step,
        whole=ready["type"] == "integer" or (step is not None and step == int(step)),
    )  # fmt: skip
    return whole_limits(limits) if limits.whole else limits


def _edge(
    ready: dict[str, Any], closed: str, opened: str, stricter: Any
) -> tuple[Decimal | None, bool]:
    """Return a limit, and whether the number itself is left out."""
    limit = _decimal(ready[closed]) if closed in ready else None
    other = ready.get(opened)
    if other is None or other is False:
        return limit, False
    if other is True:  # draft 4
        return limit, limit is not None
    beyond = _decimal(other)
    if limit is None or stricter(limit, beyond) == beyond:
        return beyond, True
    return limit, False


def _decimal(number: Any) -> Decimal:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise NotPossible("the schema is malformed")
    return Decimal(str(number))


def spell(limits: Limits) -> tuple[Automaton | None, Automaton | None]:
    """Return how numbers from 0 up are written, and those below 0 without their sign.

    None stands for no such numbers. They have no exponent.

    Raises:
        NothingMatches: there are no such numbers.
        TooComplex: their automaton would be too large.
    """
    above = _spell_side(_cut(limits))
    below = _spell_side(_cut(_mirrored(limits), above_zero=True))
    if above is None and below is None:
        raise NothingMatches("nothing matches the schema")
    return above, below


def _cut(limits: Limits, *, above_zero: bool = False) -> Limits:
    """Return the part of a range that begins at 0, or right above it."""
    low = limits.low
    if low is None or low < 0 or (above_zero and low == 0):
        return replace(limits, low=Decimal(0), low_open=above_zero)
    return limits


def _mirrored(limits: Limits) -> Limits:
    return replace(
        limits,
        low=None if limits.high is None else -limits.high,
        low_open=limits.high_open,
        high=None if limits.low is None else -limits.low,
        high_open=limits.low_open,
    )


def _spell_side(limits: Limits) -> Automaton | None:
    low = limits.low or Decimal(0)
    high, high_open, fraction = limits.high, limits.high_open, _fraction(limits)
    if high is None:
        digits = _MOST_DIGITS if limits.whole else _PRECISE
        high, high_open = Decimal(10) ** max(digits, low.adjusted() + 2) - 1, False
    limits = replace(limits, low=low, high=high, high_open=high_open)
    limits = _rounded(limits, fraction)
    low, high, high_open = limits.low or low, limits.high or Decimal(0), limits.high_open
    if high < low or (high == low and (limits.low_open or high_open)):
        return None
    made = _Digits(limits, fraction).build()
    return None if made.is_empty else made


def _fraction(limits: Limits) -> int:
    """Return how many digits may stand behind the point."""
    if limits.whole:
        return 0
    if limits.step is not None:
        return _places(limits.step)
    low, high = limits.low or Decimal(0), limits.high or Decimal(0)
    return max(_places(low), _places(high), min(_PRECISE - len(str(int(max(low, high)))), 9), 0)


class _Digits:
    """Reads the digits of a number, compared with the limits as far as they go."""

    def __init__(self, limits: Limits, fraction: int) -> None:
        low, high = limits.low or Decimal(0), limits.high or Decimal(0)
        self._limits = limits
        self._wholes = len(str(int(high)))
        self._fraction = fraction
        self._low = _digits(low, self._wholes, self._fraction)
        self._high = _digits(high, self._wholes, self._fraction)
        self._step = self._whole_step()

    def build(self) -> Automaton:
        """Return the automaton."""
        # A number of fewer digits than the greatest one is compared as if zeros stood before it.
        return build(("start", 0, True, True, 0), self._edges, self._accepts)

    def _whole_step(self) -> int:
        """Return the step in units of the last place."""
        if self._limits.step is None:
            return 1
        step = self._limits.step.scaleb(self._fraction)
        if step != int(step):  # whole numbers only: the multiples of 2.5 are those of 5
            step = Decimal(step.as_integer_ratio()[0])
        if step > _MOST_STEP:
            raise TooComplex("multipleOf is too large")
        return int(step)

    def _edges(
        self, state: tuple[str, int, bool, bool, int]
    ) -> list[tuple[cp.Ranges, tuple[str, int, bool, bool, int]]]:
        phase, place, at_low, at_high, rest = state
        if phase == "start":
            return [edge for skipped in range(self._wholes) for edge in self._first(skipped)]
        if phase == "zero" or (phase == "whole" and place == self._wholes):
            point = ("point", self._wholes, at_low, at_high, rest)
            return [(cp.one_of("."), point)] if self._fraction else []
        if place == self._wholes + self._fraction:
            return []
        after = "fraction" if phase == "point" else phase
        return self._digit(after, place, at_low, at_high, rest)

    def _first(self, skipped: int) -> list[tuple[cp.Ranges, tuple[str, int, bool, bool, int]]]:
        """Return the first digits of numbers with so many digits less than the greatest one."""
        at_low, at_high = True, True
        for place in range(skipped):
            if at_low and self._low[place]:
                return []
            at_high = at_high and self._high[place] == 0
        last = skipped == self._wholes - 1
        found = self._digit("whole", skipped, at_low, at_high, 0)
        kept = [edge for edge in found if edge[0] != cp.one_of("0") or last]
        return [
            (ranges, ("zero", *state[1:])) if ranges == cp.one_of("0") else (ranges, state)
            for ranges, state in kept
        ]

    def _digit(
        self, phase: str, place: int, at_low: bool, at_high: bool, rest: int
    ) -> list[tuple[cp.Ranges, tuple[str, int, bool, bool, int]]]:
        least = self._low[place] if at_low else 0
        most = self._high[place] if at_high else 9
        return [
            (
                cp.one_of(str(digit)),
                (
                    phase,
                    place + 1,
                    at_low and digit == least,
                    at_high and digit == most,
                    (rest * 10 + digit) % self._step,
                ),
            )
            for digit in range(least, most + 1)
        ]

    def _accepts(self, state: tuple[str, int, bool, bool, int]) -> bool:
        phase, place, at_low, at_high, rest = state
        if phase in ("start", "point") or (phase != "zero" and place < self._wholes):
            return False
        rest = rest * 10 ** (self._wholes + self._fraction - place) % self._step
        if rest:
            return False
        if at_low and (any(self._low[place:]) or self._limits.low_open):
            return False
        is_high = at_high and not any(self._high[place:])
        return not (is_high and self._limits.high_open)


def _digits(value: Decimal, wholes: int, fraction: int) -> list[int]:
    """Return the digits of a value from 0 up, the whole ones first."""
    return [int(sign) for sign in str(int(value.scaleb(fraction))).zfill(wholes + fraction)]


def _places(value: Decimal) -> int:
    """Return how many digits stand behind the point."""
    exponent = value.normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def whole_limits(limits: Limits) -> Limits:
    """Return the whole numbers of the same range."""
    return replace(_rounded(limits, 0), whole=True)


def _rounded(limits: Limits, places: int) -> Limits:
    """Return the same range of numbers with so many places, with limits that have no more."""
    unit = Decimal(1).scaleb(-places)
    low, low_open, high, high_open = limits.low, limits.low_open, limits.high, limits.high_open
    if low is not None and _places(low) > places:
        low, low_open = low.quantize(unit, ROUND_CEILING), False
    if high is not None and _places(high) > places:
        high, high_open = high.quantize(unit, ROUND_FLOOR), False
    return replace(limits, low=low, low_open=low_open, high=high, high_open=high_open)
