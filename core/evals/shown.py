"""A proof's table for people: rows of text. Imports no arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from core.evals.table import Comparison, Entry, ProofTable, Ratio, Summary
from core.units import format_bytes

Row = dict[str, str | None]
"""Cells by column."""

_PERPLEXITY, _NATS, _SHARE = 3, 5, 4  # decimals
DOMAIN_COLUMNS = {
    "domain": "DOMAIN",
    "tokens": "TOKENS",
    "model": "MODEL",
    "original": "ORIGINAL",
    "perplexity": "PERPLEXITY",
    "kl": "KL (NATS)",
    "agreement": "TOP-1",
}
"""Keys of `domain_rows`, with their headings."""


def overall_columns(table: ProofTable) -> dict[str, str]:
    """Return the keys of `overall_rows` with their headings: one column for each model."""
    names = {str(number): entry.name for number, entry in enumerate(table.entries)}
    return {"figure": "FIGURE", **names}


def overall_rows(table: ProofTable) -> list[Row]:
    """Return one row for each figure on all tokens."""
    rows = [_row(name, table.entries, read) for name, read in _FIGURES]
    return rows + [_row(name, table.entries, _loss(read)) for name, read in _LOSSES]


def domain_rows(table: ProofTable) -> list[Row]:
    """Return one row for each domain and each model but the original."""
    return [
        {
            "domain": domain,
            "tokens": str(summary.tokens),
            "model": entry.name,
            "original": f"{original.perplexity:.{_PERPLEXITY}f}",
            "perplexity": _perplexity(summary),
            "kl": _kl(summary),
            "agreement": _agreement(summary),
        }
        for domain, original in table.original.domains.items()
        for entry in table.candidates
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
    blocks = [
        _aligned(overall_rows(table), overall_columns(table)),
        _aligned(domain_rows(table), DOMAIN_COLUMNS),
        "".join(f"{line}\n" for line in remarks(table)),
    ]
    return "\n".join(blocks)


def _row(name: str, entries: Sequence[Entry], read: Callable[[Entry], str | None]) -> Row:
    return {"figure": name, **{str(n): read(entry) for n, entry in enumerate(entries)}}


def _loss(read: Callable[[Summary], str]) -> Callable[[Entry], str | None]:
    """Return what reads a difference from the original, of which that has none."""
    return lambda entry: None if entry.role == "original" else read(entry.overall)


def _compared(comparison: Comparison) -> str:
    verdict = "better" if comparison.is_better else "not better beyond the 95% bound"
    return (
        f"{comparison.model} against {comparison.baseline}: KL {_ratio(comparison.kl)}, "
        f"perplexity increase {_ratio(comparison.perplexity_increase)}: {verdict}."
    )


def _ratio(ratio: Ratio) -> str:
    if ratio.value is None:
        return "without a ratio"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f} times (no 95% interval)"
    return f"{ratio.value:.3f} times (95% {ratio.low:.3f} to {ratio.high:.3f})"


def _perplexity(found: Summary) -> str:
    return _with_error(found.perplexity, found.perplexity_se, _PERPLEXITY)


def _kl(found: Summary) -> str:
    return _with_error(found.kl, found.kl_se, _NATS)


def _agreement(found: Summary) -> str:
    return _with_error(found.agreement, found.agreement_se, _SHARE)


def _with_error(value: float, error: float | None, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text if error is None else f"{text} ± {error:.{decimals}f}"


def _aligned(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """Return rows under their headings, with spaces between."""
    cells = [list(columns.values())]
    cells += [[row.get(key) or "-" for key in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
    return "".join(f"{line}\n" for line in lines)


_FIGURES: tuple[tuple[str, Callable[[Entry], str]], ...] = (
    ("bits per weight", lambda entry: f"{entry.bits_per_weight:.3f}"),
    ("size", lambda entry: format_bytes(entry.size_bytes)),
    ("perplexity", lambda entry: _perplexity(entry.overall)),
)
_LOSSES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("KL, mean (nats)", _kl),
    ("KL, median", lambda found: f"{found.kl_median:.{_NATS}f}"),
    ("KL, 99%", lambda found: f"{found.kl_p99:.{_NATS}f}"),
    ("KL, maximum", lambda found: f"{found.kl_max:.{_NATS}f}"),
    ("top-1 agreement", _agreement),
)
