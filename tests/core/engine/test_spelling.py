"""Tokens as bytes: what a token stands for, in every way that vocabularies spell it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from core.engine.spelling import find_spelling, spelled_bytes
from core.engine.tokenizer import Tokenizer
from core.engine.tokenizer_card import TokenizerCard
from tests.tiny import EOS, byte_tokenizer


def _wrap(backend: Backend) -> Tokenizer:
    card = TokenizerCard(
        backend=backend.to_str(),
        templates={},
        special_tokens={},
        eos_ids=[0],
        longest_token=16,
        thinking=False,
    )
    return Tokenizer.from_card(card)


def _llama() -> Backend:
    vocabulary = {"<unk>": 0, "▁Hello": 1, "<0x0A>": 2, "<0xE2>": 3, "▁▁": 4, "<s>": 5}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(["<s>"])
    return backend


def test_byte_level_tokens() -> None:
    tokenizer = _wrap(byte_tokenizer())
    assert [tokenizer.token_bytes(n) for n in range(256)] == [bytes([n]) for n in range(256)]
    assert tokenizer.token_bytes(EOS) == b"<|im_end|>"
    assert tokenizer.token_bytes(9999) == b""


def test_sentencepiece_tokens_and_single_bytes() -> None:
    tokenizer = _wrap(_llama())
    assert [tokenizer.token_bytes(n) for n in range(1, 6)] == [
        b" Hello",
        b"\n",
        b"\xe2",
        b"  ",
        b"<s>",
    ]


def test_a_vocabulary_of_another_kind_is_decoded() -> None:
    backend = Backend(models.WordPiece(vocab={"[UNK]": 0, "##ing": 1, "go": 2}, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    assert _wrap(backend).token_bytes(2) == b"go"


@pytest.mark.parametrize(
    ("decoder", "spelling"),
    [
        (decoders.ByteLevel(), "bytes"),
        (decoders.Metaspace(), "sentencepiece"),
        (decoders.Sequence([decoders.ByteFallback()]), "sentencepiece"),
        (decoders.WordPiece(), None),
        (None, None),
    ],
)
def test_how_a_tokenizer_spells(decoder: object, spelling: str | None) -> None:
    state = decoder.__getstate__() if decoder else None
    assert find_spelling(state) == spelling  # type: ignore[arg-type]


def test_what_no_byte_is_spelled_by_stands_for_itself() -> None:
    assert spelled_bytes("Ġ", "bytes") == b" "
    assert spelled_bytes("漢", "bytes") == "漢".encode()


@pytest.mark.starter
def test_the_starters_tokens_join_to_its_texts(starter_folder: Path) -> None:
    tokenizer = Tokenizer.load(starter_folder, eos_ids=None, shelf=None)
    text = "Hello, wörld! 漢字 👩‍🚀\n\tdef f(x):  return x"
    tokens = tokenizer.encode(text, special=False)
    assert b"".join(map(tokenizer.token_bytes, tokens)).decode() == text
