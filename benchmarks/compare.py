"""Pairs of measurements, taken in turns, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a ratio has to reach."""

    bound: float
    """The number."""
    at_most: bool = False
    """Whether it is the most that is allowed, and not the least."""

    def met(self, value: float) -> bool:
        """Return whether a value reaches it."""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"


@dataclass(kw_only=True)
class Row:
    """One line of a table: two things measured in the same rounds."""

    name: str
    """What is measured, with its unit."""
    goal: Goal | None
    """What the ratio has to reach, or None."""
    inverse: bool
    """The ratio is second / first (times of ours first: above 1 is better); else first / second."""
    first: list[float] = field(default_factory=list)
    """Samples of the first thing."""
    second: list[float] = field(default_factory=list)
    """Samples of the second, one for each of the first."""

    @property
    def ratios(self) -> list[float]:
        """Return the ratio of each pair."""
        pairs = zip(self.first, self.second, strict=True)
        return [b / a if self.inverse else a / b for a, b in pairs]

    @property
    def cells(self) -> list[str]:
        """Return name, medians, ratio with its quartiles, goal."""
        ratio, (low, high) = median(self.ratios), quartiles(self.ratios)
        goal = f"{self.goal}{'' if self.goal.met(ratio) else ' (missed)'}" if self.goal else ""
        spread = (
            f"{ratio:.2f} ({low:.2f} to {high:.2f})" if len(self.ratios) > 1 else f"{ratio:.2f}"
        )
        return [self.name, f"{median(self.first):.3g}", f"{median(self.second):.3g}", spread, goal]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the values at a quarter and three quarters of the order."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(last / 4)], ordered[round(3 * last / 4)]


def take_turns(
    rows: Sequence[tuple[Row, Callable[[str], float], Callable[[str], float]]], rounds: int
) -> list[Row]:
    """Measure every row once a round, first and second in changing order.

    Args:
        rows: a row with what measures its first and its second; each takes a salt that no other
            measurement has.
        rounds: how often.
    """
    for number in range(rounds):
        for row, first, second in rows:
            salt = f"{row.name} {number}"
            if number % 2:
                row.second.append(second(salt))
                row.first.append(first(salt))
            else:
                row.first.append(first(salt))
                row.second.append(second(salt))
            _tell(row, number)
    return [row for row, _, _ in rows]


def _tell(row: Row, number: int) -> None:
    values = f"{row.first[-1]:.3g} and {row.second[-1]:.3g}"
    print(f"  round {number + 1}: {row.name}: {values}", flush=True)


def table(title: str, columns: tuple[str, str], rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    lines = [[title, *columns, "ratio", "goal"], ["---", "---:", "---:", "---:", "---"]]
    lines += [row.cells for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
