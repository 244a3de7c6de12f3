"""Tokens to text, one at a time, without ever showing half a character.

Decoding single tokens is wrong for byte-level and SentencePiece vocabularies: a character may span
tokens, and a space may depend on what stands before. So a short window is decoded with and without
the new token, and the difference is the new text (the method of Hugging Face's TGI and of vLLM).
The cost per token does not grow with the answer. Knows no arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_REPLACEMENT = "\ufffd"


class Detokenizer:
    """Turns a growing list of tokens into pieces of text.

    The pieces together equal the decoding of the whole list.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        # Tokens of the window whose text is out already; they give the rest its context.
        self._shown = 0
        self._shown_text = ""

    def push(self, token: int) -> str:
        """Take one token and return the text that it completes, often one word, maybe none."""
        self._window.append(token)
        text = self._decode(self._window)
        if text.endswith(_REPLACEMENT) or len(text) <= len(self._shown_text):
            return ""
        piece = text[len(self._shown_text) :]
        # The tokens shown so far are the context of the next ones; what stood before them goes.
        self._window = self._window[self._shown :]
        self._shown = len(self._window)
        self._shown_text = self._decode(self._window)
        return piece

    def flush(self) -> str:
        """Return the rest, replacement characters included: no more tokens come."""
        text = self._decode(self._window)
        piece = text[len(self._shown_text) :]
        self._shown = len(self._window)
        self._shown_text = text
        return piece
