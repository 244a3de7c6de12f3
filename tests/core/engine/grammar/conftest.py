"""A vocabulary of bytes and some longer tokens, and what a model would be allowed under a form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.engine.grammar import CompiledForm, Grammars
from core.engine.request import GrammarSpec
from core.engine.tokenizer import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

EOS = 256
SPECIAL = ("<|end|>", "<|start|>", '<|"|>')
WORDS = ("\n\n", "true", "yes", '{"')


def byte_texts() -> list[str]:
    """Return how byte-level vocabularies spell the 256 bytes, in order."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = iter(range(0x100, 0x200))
    return [chr(byte) if byte in kept else chr(next(shifted)) for byte in range(256)]


class Bytes:
    """Stands for a tokenizer: every byte is a token, special ones and some words follow."""

    def vocabulary(self) -> Vocabulary:
        spelled = byte_texts()
        words = ["".join(spelled[byte] for byte in word.encode()) for word in WORDS]
        tokens = {text: number for number, text in enumerate([*spelled, *SPECIAL, *words])}
        special = frozenset(range(EOS, EOS + len(SPECIAL)))
        return Vocabulary(tokens=tokens, special=special, backend=None)

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token < EOS).decode(errors="replace")


VOCABULARY = EOS + len(SPECIAL) + len(WORDS) + 5  # some rows of the model stand for no token


@pytest.fixture(scope="session")
def grammars() -> Grammars:
    """The forms of a model whose tokens are bytes."""
    return Grammars(Bytes(), VOCABULARY, [EOS])  # type: ignore[arg-type]


class Forms:
    """Compiles forms and asks what they do with texts."""

    def __init__(self, grammars: Grammars) -> None:
        self.grammars = grammars

    def compile(self, kind: Any, source: Any = None, **fields: Any) -> CompiledForm:
        form = self.grammars.prepare(GrammarSpec(kind=kind, source=source, **fields))
        assert isinstance(form, CompiledForm), form
        return form

    def end(self, form: CompiledForm, text: str) -> int | None:
        """Return after how many bytes a row ends by itself; None: it does not."""
        row = form.start()
        for count, byte in enumerate(text.encode(), 1):
            row.accept(byte)
            assert row.lost is None, (text, count)
            if row.complete:
                return count
        return None

    def takes(self, form: CompiledForm, text: str) -> bool:
        """Return whether a text may come, whole or as a beginning."""
        row = form.start()
        for byte in text.encode():
            row.accept(byte)
        return row.lost is None


@pytest.fixture
def forms(grammars: Grammars) -> Forms:
    return Forms(grammars)
