"""A proof's table for people: rows of text. Imports no arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.evals.table import Comparison, Entry, ProofTable, Ratio, Summary
from core.units import format_bytes

COLUMNS = {
    "model": "MODEL",
    "bits": "BITS/WEIGHT",
    "size": "SIZE",
    "perplexity": "PERPLEXITY",
    "kl": "KL (NATS)",
    "median": "MEDIAN",
    "p99": "99%",
    "max": "MAX",
    "agreement": "TOP-1",
}
"""Keys of `overall_rows`, with their headings."""
DOMAIN_COLUMNS = {
    "domain": "DOMAIN",
    "model": "MODEL",
    "tokens": "TOKENS",
    "perplexity": "PERPLEXITY",
    "kl": "KL (NATS)",
    "agreement": "TOP-1",
}
"""Keys of `domain_rows`, with their headings."""

Row = dict[str, str | None]


def overall_rows(table: ProofTable) -> list[Row]:
    """Return one row for each model, on all tokens."""
    return [
        {
            "model": entry.name,
            "bits": f"{entry.bits_per_weight:.3f}",
            "size": format_bytes(entry.size_bytes),
            "median": _nats(entry.overall.kl_median),
            "p99": _nats(entry.overall.kl_p99),
            "max": _nats(entry.overall.kl_max),
            **_measured(entry, entry.overall),
        }
        for entry in table.entries
    ]


def domain_rows(table: ProofTable) -> list[Row]:
    """Return one row for each domain and model."""
    return [
        {
            "domain": domain,
            "model": entry.name,
            "tokens": str(summary.tokens),
            **_measured(entry, summary),
        }
        for domain in table.original.domains
        for entry in table.entries
        if (summary := entry.domains.get(domain)) is not None
    ]


def remarks(table: ProofTable) -> Iterator[str]:
    """Yield what has to be said below a table, one sentence each."""
    overall = table.original.overall
    text = f"{overall.tokens} held-out tokens in {overall.sequences} sequences"
    yield f"{text} ({table.heldout[:12]}); ± is a standard error with sequences as clusters."
    for comparison in table.comparisons:
        yield _compared(comparison)


def as_text(table: ProofTable) -> str:
    """Return a table, its domains and its remarks as plain text."""
    blocks = [_aligned(overall_rows(table), COLUMNS), _aligned(domain_rows(table), DOMAIN_COLUMNS)]
    return "\n".join([*blocks, "\n".join(remarks(table))]) + "\n"


def _compared(comparison: Comparison) -> str:
    verdict = "better" if comparison.is_better else "not better beyond the 95% bound"
    return (
        f"{comparison.model} against {comparison.baseline}: KL {_ratio(comparison.kl)}, "
        f"perplexity increase {_ratio(comparison.perplexity_increase)}: {verdict}."
    )


def _ratio(ratio: Ratio) -> str:
    if ratio.value is None:
        return "without a ratio"
    ends = ["?" if end is None else f"{end:.3f}" for end in (ratio.low, ratio.high)]
    return f"{ratio.value:.3f} times (95% {ends[0]} to {ends[1]})"


def _measured(entry: Entry, summary: Summary) -> Row:
    """Return the cells that every row has; the original differs from itself in nothing."""
    found: Row = {"perplexity": _with_error(f"{summary.perplexity:.4f}", summary.perplexity_se, 4)}
    if entry.role == "original":
        return found | dict.fromkeys(("kl", "median", "p99", "max", "agreement"))
    return found | {
        "kl": _with_error(_nats(summary.kl), summary.kl_se, 5),
        "agreement": _with_error(f"{summary.agreement:.4f}", summary.agreement_se, 4),
    }


def _nats(value: float) -> str:
    return f"{value:.5f}"


def _with_error(text: str, error: float | None, digits: int) -> str:
    return text if error is None else f"{text} ± {error:.{digits}f}"


def _aligned(rows: Sequence[Row], columns: dict[str, str]) -> str:
    """Return rows under their headings, with spaces between."""
    cells = [list(columns.values())]
    cells += [[row.get(key) or "-" for key in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
    return "\n".join(lines) + "\n"
