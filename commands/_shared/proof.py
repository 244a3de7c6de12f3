"""A proof's table as a person reads it: the figures on stdout, what they mean beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from commands._shared.console import Console
    from core.evals.table import ProofTable


def show_proof(table: ProofTable, console: Console) -> None:
    """Show a table: all tokens, then by domain. Not for JSON.

    Args:
        table: what was measured.
        console: the output.
    """
    from core.evals.shown import COLUMNS, DOMAIN_COLUMNS, domain_rows, overall_rows, remarks

    console.table(overall_rows(table), COLUMNS)
    console.text("\n")
    console.table(domain_rows(table), DOMAIN_COLUMNS)
    for line in remarks(table):
        console.note(line)
