"""Our held-out text: what every measurement of a model is made on. Imports no arrays.

Six domains of original text, a JSONL file for each in `texts/heldout`; no calibration mix of ours
shares a run of 13 tokens with it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from core.evals.documents import Document, TokenRows, digest_of, read_documents, token_rows
from core.evals.overlap import RUN, SharedRun, shared_runs, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.engine.tokenizer import Tokenizer

DOMAINS = ("prose", "code", "chat", "tools", "scripts", "maths")
"""The domains of our texts, in order; `maths` holds structured data as well."""

HeldOut: TypeAlias = TokenRows
"""Token sequences of the held-out text."""

_FOLDER = Path(__file__).parent / "texts" / "heldout"
_SHORT_TOKEN = 2.0  # bytes; tokens below this average are letters, of which 13 are a word or two


@cache
def heldout_documents() -> tuple[Document, ...]:
    """Return the held-out text, domain by domain."""
    return read_domains(_FOLDER)


def heldout_rows(tokenizer: Tokenizer, *, length: int) -> HeldOut:
    """Return all of the held-out text as token sequences, at least one in every domain.

    Args:
        tokenizer: the model's.
        length: tokens of a sequence, at least 8.

    Raises:
        BadModelFiles: the tokenizer makes tokens that the model does not have.
    """
    return token_rows(heldout_documents(), tokenizer, length=length)


def heldout_digest() -> str:
    """Return the SHA-256 of the held-out text, in hexadecimal."""
    return digest_of(heldout_documents())


def read_domains(folder: Path) -> tuple[Document, ...]:
    """Return texts of ours that lie in a folder with a JSONL file for each domain."""
    return tuple(d for name in DOMAINS for d in read_documents(folder / f"{name}.jsonl"))


def first_shared_words(documents: Sequence[Document]) -> tuple[Document, str] | None:
    """Return the first document that shares 13 words with the held-out text, and these words.

    Needs no tokenizer. None: no document does.
    """
    pieces = list(_pieces(documents))
    words = [words_of(piece) for _, piece in pieces]
    others = (words_of(piece) for _, piece in _pieces(heldout_documents()))
    for run in shared_runs(words, others):
        return pieces[run.sequence][0], " ".join(words[run.sequence][_of(run)])
    return None


def first_shared_tokens(
    documents: Sequence[Document], tokenizer: Tokenizer
) -> tuple[Document, str] | None:
    """Return the first document that shares 13 tokens with the held-out text, and their text.

    Tokenizers whose tokens are single letters share such runs by chance; with them only words
    count. None: no document shares a run.
    """
    pieces = list(_pieces(documents))
    held_out = [piece for _, piece in _pieces(heldout_documents())]
    others = [tokenizer.encode(piece, special=False) for piece in held_out]
    if sum(len(p.encode()) for p in held_out) < _SHORT_TOKEN * sum(map(len, others)):
        return None
    tokens = [tokenizer.encode(piece, special=False) for _, piece in pieces]
    for run in shared_runs(tokens, others):
        return pieces[run.sequence][0], tokenizer.decode(tokens[run.sequence][_of(run)])
    return None


def _of(run: SharedRun) -> slice:
    return slice(run.start, run.start + RUN)


def _pieces(documents: Sequence[Document]) -> Iterator[tuple[Document, str]]:
    for document in documents:
        for piece in document.pieces:
            yield document, piece
