"""What `memory doctor` reports. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Severity = Literal["error", "warning", "note"]
"""`error`: something is lost, unsafe or cannot be read; `warning`: something to fix; `note`: a
check that could not be made."""
Kind = Literal[
    "broken-link", "broken-anchor", "outside-link", "duplicate-name", "ambiguous-alias",
    "file-name", "uncited-claim", "undefined-footnote", "unused-footnote", "duplicate-footnote",
    "missing-quote", "unknown-source", "unchecked-quotes", "uncommitted", "git", "conflict",
    "oversize", "unreadable", "not-utf8", "unclosed-code", "special-file", "subfolder",
    "nested-git", "git-attributes", "too-many",
]  # fmt: skip
MOST_ALIKE = 50
"""Findings of one kind in one file; more are counted."""
MOST_FINDINGS = 10_000


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something about a vault that its owner should look at."""

    kind: Kind
    """Which check found it."""
    severity: Severity
    """How bad it is."""
    path: str
    """The file, relative to the vault; empty: the vault itself."""
    message: str
    """One sentence."""
    line: int | None = None
    """1-based line; None: the whole file."""


def is_sound(findings: Iterable[Finding]) -> bool:
    """Return whether nothing has to be fixed: checks that could not be made do not count."""
    return all(finding.severity == "note" for finding in findings)


def arranged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by file and line, with those that are too many as a number."""
    ordered = sorted(findings, key=lambda f: (f.path, f.kind, f.line or 0, f.message))
    groups = groupby(ordered, key=lambda finding: (finding.path, finding.kind))
    kept = [finding for _, group in groups for finding in _first(list(group))]
    kept.sort(key=lambda f: (f.path, f.line or 0, f.kind, f.message))
    if len(kept) <= MOST_FINDINGS:
        return tuple(kept)
    more = len(kept) - MOST_FINDINGS
    message = f"{more} more findings are not listed."
    last = Finding(kind="too-many", severity="warning", path="", message=message)
    return (*kept[:MOST_FINDINGS], last)


def _first(alike: list[Finding]) -> Iterator[Finding]:
    yield from alike[:MOST_ALIKE]
    if len(alike) > MOST_ALIKE:
        one = alike[0]
        message = f"{len(alike) - MOST_ALIKE} more findings like these are not listed."
        yield Finding(kind=one.kind, severity=one.severity, path=one.path, message=message)
