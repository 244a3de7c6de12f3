"""A model's tokens as the texts that a grammar matches. Imports no MLX.

Letters: V vocabulary.
"""

from __future__ import annotations

from json.encoder import encode_basestring as dumps
from typing import TYPE_CHECKING, Any

from core.engine.grammar.build import Tokens
from core.engine.grammar.ebnf import literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.engine.tokenizer import Vocabulary

# JSON knows them in strings as escapes only; line ends are white space between its tokens.
_CONTROLS = frozenset(range(0x20)) - {0x0A, 0x0D}


class TokenTexts:
    """The texts of a vocabulary, decoded once."""

    def __init__(
        self,
        xgrammar: Any,
        vocabulary: Vocabulary,
        *,
        size: int,
        stop_ids: Iterable[int],
    ) -> None:
        """Decode the tokens. Takes about a tenth of a second.

        Args:
            xgrammar: the module.
            vocabulary: the tokenizer's.
            size: V, the width of the model's logits.
            stop_ids: tokens that end an answer.
        """
        self._stop_ids = tuple(sorted(n for n in set(stop_ids) if 0 <= n < size))
        self._special = {
            spelling: number
            for spelling, number in vocabulary.tokens.items()
            if number in vocabulary.special and number < size
        }
        self._texts = _decode(xgrammar, vocabulary, size)

    def tokens(self, *, json: bool, marks: frozenset[str]) -> Tokens:
        """Return the tokens for a kind of grammar.

        Args:
            json: leave out those that hold characters which JSON only knows as escapes: xgrammar
                lets them into strings of limited length.
            marks: special tokens that the grammar may use; all others are left out, as they would
                be spelled out within a text and then be missing in the answer.
        """
        texts = list(self._texts)
        for spelling, number in self._special.items():
            if spelling not in marks:
                texts[number] = b""
        if json:
            texts = [b"" if not _CONTROLS.isdisjoint(text) else text for text in texts]
        return Tokens(texts=tuple(texts), stop_ids=self._stop_ids)

    def marks_in(self, calls: str) -> frozenset[str]:
        """Return the special tokens that calls are written with.

        Args:
            calls: the format of an xgrammar structural tag, as JSON.
        """
        return frozenset(mark for mark in self._special if _is_in(mark, calls))

    def blanks(self) -> list[int]:
        """Return the tokens that are spaces and line ends and nothing else."""
        return [n for n, text in enumerate(self._texts) if text and not text.strip(b" \n")]


def _is_in(mark: str, calls: str) -> bool:
    """Return whether a format has a text, as it is or in a literal of a grammar."""
    return any(dumps(text)[1:-1] in calls for text in (mark, literal(mark)[1:-1]))


def _decode(xgrammar: Any, vocabulary: Vocabulary, size: int) -> list[bytes]:
    """Return V texts; numbers that stand for no token have empty ones."""
    spellings = [""] * size
    for spelling, number in vocabulary.tokens.items():
        if number < size:
            spellings[number] = spelling
    kind = _encoding(xgrammar, vocabulary)
    info = xgrammar.TokenizerInfo(spellings, kind, vocab_size=size, stop_token_ids=[])
    return [bytes(text) for text in info.decoded_vocab]


def _encoding(xgrammar: Any, vocabulary: Vocabulary) -> Any:
    """Return how tokens are spelled: as their tokens say, or else as the tokenizer says."""
    info = xgrammar.TokenizerInfo
    seen = info._detect_vocab_type_from_vocab(dict(vocabulary.tokens))
    if seen is not None or vocabulary.backend is None:
        return seen or xgrammar.VocabType.RAW
    return info._detect_metadata_from_hf(vocabulary.backend)["vocab_type"]
