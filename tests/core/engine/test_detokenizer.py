"""The pieces are the whole, and no piece holds half a character."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from core.engine.detokenizer import Detokenizer
from tests.tiny import byte_tokenizer


@cache
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


def decode(tokens: object) -> str:
    text: str = tokenizer().decode(list(tokens), skip_special_tokens=True)  # type: ignore[call-overload]
    return text


def pieces_of(tokens: list[int]) -> list[str]:
    detokenizer = Detokenizer(decode)
    return [*(detokenizer.push(token) for token in tokens), detokenizer.flush()]


@given(st.text())
def test_pieces_join_to_the_text(text: str) -> None:
    tokens = tokenizer().encode(text).ids
    assert "".join(pieces_of(tokens)) == decode(tokens)


@given(st.lists(st.integers(0, 255), max_size=40))
def test_pieces_of_broken_bytes_join_to_the_decoding(tokens: list[int]) -> None:
    assert "".join(pieces_of(tokens)) == decode(tokens)


def test_a_character_comes_whole() -> None:
    tokens = tokenizer().encode("a☕é").ids
    assert len(tokens) == 6
    assert pieces_of(tokens) == ["a", "", "", "☕", "", "é", ""]


def test_a_cut_character_comes_as_replacement_at_the_end() -> None:
    tokens = tokenizer().encode("☕").ids[:2]
    assert "".join(pieces_of(tokens)) == "\ufffd"


def test_the_work_per_token_does_not_grow() -> None:
    seen: list[int] = []

    def counting(tokens: object) -> str:
        seen.append(len(list(tokens)))  # type: ignore[call-overload]
        return decode(tokens)

    detokenizer = Detokenizer(counting)
    for token in tokenizer().encode("plain words " * 200).ids:
        detokenizer.push(token)
    assert max(seen) <= 4
