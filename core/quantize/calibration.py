"""Calibration text: what a quantization looks at to find which weights matter. Imports no arrays.

A mix is a name of ours, or a user's file. It must not overlap the held-out text, on which the
result is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import NotFound, UsageProblem
from core.evals.documents import Document, TokenRows, choose_rows, read_documents, token_rows
from core.evals.heldout import DOMAINS, first_shared_tokens, first_shared_words, read_domains
from core.fields import shown
from core.paths import expanded
from core.registry.files import printable
from core.rows.files import SUFFIXES

if TYPE_CHECKING:
    from core.engine.tokenizer import Tokenizer

DEFAULT_MIX = "mlxbun"
"""Our mix of all domains."""
MIXES = (DEFAULT_MIX, *DOMAINS)
"""The names of our mixes: the whole one, and its domains alone."""
LEAST_TOKENS = 256
"""Calibration text below this is refused: statistics of so few tokens are noise."""

_FOLDER = Path(__file__).parent / "mixes" / DEFAULT_MIX


@dataclass(frozen=True, kw_only=True)
class Calibration(TokenRows):
    """Token sequences to calibrate on."""

    name: str
    """The mix: a name of ours, or the name of the file."""


def check_calibration(name_or_file: str) -> tuple[Document, ...]:
    """Return the documents of a mix, and refuse what no model could be calibrated on.

    Needs no model and no tokenizer: looks at the rows, and at words shared with the held-out text.

    Args:
        name_or_file: one of `MIXES`, or a .jsonl, .csv or .parquet file.

    Raises:
        NotFound: there is no such mix or file.
        UsageProblem: the file cannot be read, has rows that cannot be used, is too short, or
            overlaps the held-out text.
    """
    if name_or_file in MIXES:
        return _mix(name_or_file)
    file = _file(name_or_file)
    documents = read_documents(file)
    size = sum(len(piece.encode()) for document in documents for piece in document.pieces)
    if size < LEAST_TOKENS:  # a token is a byte at least
        raise _too_short(file.name, f"{size} bytes of text")
    if shared := first_shared_words(documents):
        raise _overlaps(file.name, *shared)
    return tuple(documents)


def calibration_rows(
    name_or_file: str, tokenizer: Tokenizer, *, n: int, length: int
) -> Calibration:
    """Return a mix as token sequences.

    Args:
        name_or_file: one of `MIXES`, or a .jsonl, .csv or .parquet file.
        tokenizer: the model's.
        n: how many sequences, taken from the domains in turn; 0: all of them.
        length: tokens of a sequence, at least 8.

    Raises:
        NotFound: there is no such mix or file.
        UsageProblem: as `check_calibration`, counted in the model's tokens.
        BadModelFiles: the tokenizer makes tokens that the model does not have.
    """
    documents = check_calibration(name_or_file)
    ours = name_or_file in MIXES
    name = name_or_file if ours else _file(name_or_file).name
    # Ours overlap nothing: a test says so.
    if not ours and (shared := first_shared_tokens(documents, tokenizer)):
        raise _overlaps(name, *shared)
    rows = token_rows(documents, tokenizer, length=length)
    if rows.tokens < LEAST_TOKENS:
        raise _too_short(name, f"{rows.tokens} tokens")
    notes = rows.notes
    if n > len(rows.rows):
        notes += (
            f"The calibration text {name} has {len(rows.rows)} sequences of up to {length} tokens; "
            f"all of them are used, not {n}.",
        )
    chosen = choose_rows(rows, n) if 0 < n < len(rows.rows) else rows
    values = {each.name: getattr(chosen, each.name) for each in fields(TokenRows)}
    return Calibration(name=name, **values | {"notes": notes})


def _mix(name: str) -> tuple[Document, ...]:
    documents = read_domains(_FOLDER)
    return documents if name == DEFAULT_MIX else tuple(d for d in documents if d.domain == name)


def _file(name: str) -> Path:
    """Return the file that is meant.

    Raises:
        NotFound: it is neither a file nor a name of a mix.
    """
    file = expanded(name)
    if file.suffix.lower() in SUFFIXES:
        return file
    raise NotFound(
        f"Unknown calibration mix {shown(name)}.",
        hint=f"Use {', '.join(MIXES)}, or a file that ends in {' or '.join(SUFFIXES)}.",
    )


def _too_short(name: str, size: str) -> UsageProblem:
    return UsageProblem(
        f"The calibration text {name} is too short: it has {size}, and at least {LEAST_TOKENS} "
        "tokens are needed.",
        hint=f"Add text, or use one of the mixes {', '.join(MIXES)}.",
    )


def _overlaps(name: str, document: Document, text: str) -> UsageProblem:
    return UsageProblem(
        f"{name}, line {document.line}, shares text with the held-out text that the result is "
        f'measured on: "{printable(" ".join(text.split()), 120)}".',
        hint="Delete this row: held-out text must not be used for calibration.",
    )
