"""Whether a published table is true: measured again, and held against what it claims.

What is counted has to be equal. What is computed may differ by rounding: float32 on other devices
(fused kernels, TF32, another BLAS) moves a mean KL by some 1e-5 nats. The tolerances below are ten
times that or more, and far less than what a changed weight does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import ProofFailed
from core.evals.table import Entry, ProofTable


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How far a figure may be from its claim: the sum of both."""

    absolute: float = 0.0
    """In the figure's unit."""
    relative: float = 0.0
    """As a part of the claim."""

    def allows(self, claimed: float, found: float) -> bool:
        """Return whether two figures are the same but for rounding."""
        if math.isinf(claimed) or math.isinf(found):
            return claimed == found
        return abs(found - claimed) <= self.absolute + self.relative * abs(claimed)


_EXACT = Tolerance(relative=1e-9)  # a quotient that was written to JSON and read back
_COUNTED: Mapping[str, Tolerance] = dict.fromkeys(("bits_per_weight", "size_bytes"), _EXACT)
"""Fields of an entry."""
_COMPARED: Mapping[str, Tolerance] = {
    "kl": Tolerance(absolute=0.02, relative=0.05),
    "perplexity_increase": Tolerance(absolute=0.1, relative=0.1),  # of two small differences
}
"""Ratios of a comparison."""
_MEASURED: Mapping[str, Tolerance] = {
    "tokens": _EXACT,
    "sequences": _EXACT,
    "perplexity": Tolerance(relative=2e-3),
    "kl": Tolerance(absolute=1e-4, relative=0.01),
    "kl_median": Tolerance(absolute=1e-4, relative=0.02),
    "kl_p99": Tolerance(absolute=1e-3, relative=0.02),
    "kl_max": Tolerance(absolute=1e-2, relative=0.05),
    "agreement": Tolerance(absolute=5e-3),
}
"""Fields of a summary, and what rounding may do to them."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One figure of a published table, and what it is."""

    model: str
    """The line of the table."""
    domain: str | None
    """A domain, or None for all tokens."""
    name: str
    """The field: `kl`."""
    claimed: float
    """What the table says."""
    found: float
    """What was measured."""
    holds: bool
    """Whether the two are the same but for rounding."""

    def __str__(self) -> str:
        """Return the claim as a clause."""
        where = f" on {self.domain}" if self.domain else ""
        return f"{self.name} of {self.model}{where} is {self.found:.6g}, not {self.claimed:.6g}"


def check_claims(claimed: ProofTable, found: ProofTable) -> tuple[Claim, ...]:
    """Return every claim of a table beside what was measured again.

    Args:
        claimed: the published table.
        found: a table of the same text; models that it lacks are not checked.

    Raises:
        ProofFailed: the tables are of different texts, or share no model.
    """
    if claimed.heldout != found.heldout:
        raise ProofFailed(
            f"The table was measured on another held-out text ({claimed.heldout[:12]}) than the "
            f"one in this version of mlxbun ({found.heldout[:12]}).",
            hint="Verify it with the version of mlxbun that its record names.",
        )
    pairs = [
        (entry, again)
        for entry in claimed.entries
        if (again := found.entry(entry.role)) is not None
    ]
    if len(pairs) < 2:
        raise ProofFailed("The table has no line for this model.")
    lines = [claim for entry, again in pairs for claim in _claims(entry, again)]
    return (*lines, *_of_comparisons(claimed, found))


def require_true(claims: tuple[Claim, ...]) -> None:
    """Refuse a table of which a claim does not hold.

    Raises:
        ProofFailed: there is one.
    """
    false = [claim for claim in claims if not claim.holds]
    if false:
        more = f", and {len(false) - 3} more" if len(false) > 3 else ""
        raise ProofFailed(
            f"The table does not hold: {'; '.join(map(str, false[:3]))}{more}.",
            hint="The files are not those that were measured, or the table was edited.",
        )


def _claims(entry: Entry, again: Entry) -> Iterator[Claim]:
    """Yield the claims of one line: its size, then its figures on all tokens and by domain."""
    yield from _of_fields(entry.name, None, entry, again, _COUNTED)
    yield from _of_fields(entry.name, None, entry.overall, again.overall, _MEASURED)
    for domain, said in entry.domains.items():
        if domain not in again.domains:
            raise ProofFailed(f"The held-out text has no domain {domain!r}, which the table has.")
        yield from _of_fields(entry.name, domain, said, again.domains[domain], _MEASURED)


def _of_comparisons(claimed: ProofTable, found: ProofTable) -> Iterator[Claim]:
    """Yield the claims of comparisons with the baseline, where that was measured again."""
    for said, again in zip(claimed.comparisons, found.comparisons, strict=False):
        for name, tolerance in _COMPARED.items():
            for end in ("value", "high"):
                first, second = (getattr(getattr(each, name), end) for each in (said, again))
                pair = [math.inf if value is None else value for value in (first, second)]
                yield Claim(
                    model=f"{said.model} against {said.baseline}",
                    domain=None,
                    name=f"ratio of {name} ({end})",
                    claimed=pair[0],
                    found=pair[1],
                    holds=tolerance.allows(*pair),
                )


def _of_fields(
    model: str, domain: str | None, said: Any, found: Any, fields: Mapping[str, Tolerance]
) -> Iterator[Claim]:
    """Yield the claims of some fields of two dataclasses of the same type."""
    for name, tolerance in fields.items():
        claimed, measured = _number(getattr(said, name)), _number(getattr(found, name))
        yield Claim(
            model=model,
            domain=domain,
            name=name,
            claimed=claimed,
            found=measured,
            holds=tolerance.allows(claimed, measured),
        )


def _number(value: float) -> float:
    """Return a figure as a float; a whole number that none holds is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
