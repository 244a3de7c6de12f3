"""Reasoning is free, limited by its budget, and the form begins where the channel ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.grammar.reasoning import AfterReasoning, ChannelTokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.constraint import Constraint

VOCABULARY = 300
WORDS = 10
EOS, OPEN, CLOSE, BLANK = 256, 257, 258, 259
MARKS = {EOS: "", OPEN: "<think>", CLOSE: "</think>", BLANK: "\n\n", 260: "</", 261: "think>\n"}
SINGLE = ChannelTokens(
    opening=(OPEN,), closing=(CLOSE,), closing_text="</think>", blanks=(10, BLANK), stops=(EOS,)
)
SPELLED = ChannelTokens(
    opening=tuple(b"<think>"),
    closing=tuple(b"</think>"),
    closing_text="</think>",
    blanks=(10, BLANK),
    stops=(EOS,),
)


def decode(tokens: Sequence[int]) -> str:
    return "".join(MARKS[t] if t in MARKS else chr(t) for t in tokens)


class Letters:
    """Allows the letters of a word, one after the other."""

    def __init__(self, word: str) -> None:
        self._word = word.encode()
        self.heard: list[int] = []

    @property
    def complete(self) -> bool:
        return len(self.heard) == len(self._word)

    def accept(self, token: int) -> None:
        self.heard.append(token)

    def fill(self, mask: Any, row: int) -> bool:
        mask[row] = 0
        if not self.complete:
            token = self._word[len(self.heard)]
            mask[row].view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)
        return True

    def restart(self, tokens: Sequence[int]) -> None:
        self.heard = list(tokens)


def watch(
    inner: Constraint | None,
    *,
    channel: ChannelTokens = SINGLE,
    is_open: bool = True,
    budget: int | None = None,
) -> AfterReasoning:
    return AfterReasoning(
        inner,
        channel=channel,
        is_open=is_open,
        budget=budget,
        decode=decode,
        vocabulary=VOCABULARY,
    )


def allowed(row: AfterReasoning) -> set[int] | None:
    """Return what may come; None: anything."""
    mask = np.full((2, WORDS), -1, np.int32)
    limits = row.fill(mask, 1)
    assert (mask[0] == -1).all()
    if not limits:
        return None
    bits = np.unpackbits(mask[1].view(np.uint8), bitorder="little")
    return {int(n) for n in np.flatnonzero(bits)}


def feed(row: AfterReasoning, tokens: Sequence[int]) -> None:
    for token in tokens:
        row.accept(token)


def test_the_form_begins_after_the_channel() -> None:
    row = watch(Letters("ab"))
    thinking = allowed(row)
    assert thinking is not None
    assert EOS not in thinking
    assert {CLOSE, OPEN, 65} <= thinking
    feed(row, [*b"ab ab", CLOSE])
    assert allowed(row) == {ord("a"), 10, BLANK}
    feed(row, [BLANK, *b"a"])
    assert allowed(row) == {ord("b")}
    assert not row.complete
    row.accept(ord("b"))
    assert row.complete


def test_white_space_before_the_form_has_an_end() -> None:
    row = watch(Letters("ab"))
    feed(row, [CLOSE, *[10] * 4])
    assert allowed(row) == {ord("a")}


def test_an_answer_may_open_the_channel_itself_or_not() -> None:
    row = watch(Letters("ab"), is_open=False)
    # No white space: it would be part of an answer that never opens the channel.
    assert allowed(row) == {ord("a"), OPEN}
    feed(row, [OPEN, 120, CLOSE, ord("a")])
    assert allowed(row) == {ord("b")}
    row = watch(Letters("ab"), is_open=False)
    row.accept(ord("a"))
    assert allowed(row) == {ord("b")}


def test_a_spelled_out_opening_mark_is_finished_once_begun() -> None:
    row = watch(Letters("ab"), channel=SPELLED, is_open=False)
    feed(row, b"<thi")
    assert allowed(row) == {ord("n")}
    feed(row, b"nk>hm</think>")
    assert allowed(row) == {ord("a"), 10, BLANK}


@pytest.mark.parametrize(
    "tokens", [list(b"hm</think>"), [104, 260, 261], [*b"h<", *b"/think", ord(">")]]
)
def test_a_closing_mark_is_seen_however_it_is_cut(tokens: list[int]) -> None:
    row = watch(Letters("ab"), channel=SPELLED)
    feed(row, tokens)
    assert allowed(row) == {ord("a"), 10, BLANK}


def test_the_last_token_of_a_closing_mark_comes_alone() -> None:
    row = watch(Letters("ab"), channel=SPELLED)
    feed(row, b"hm</think")
    assert allowed(row) == {ord(">")}


@pytest.mark.parametrize("channel", [SINGLE, SPELLED])
@pytest.mark.parametrize("inner", [None, "ab"])
@pytest.mark.parametrize("budget", [0, 1, 7])
def test_a_budget_closes_the_channel(
    channel: ChannelTokens, inner: str | None, budget: int
) -> None:
    row = watch(Letters(inner) if inner else None, channel=channel, budget=budget)
    for _ in range(budget):
        may = allowed(row)
        assert may is None or len(may) > 100
        row.accept(120)
    for token in channel.closing:
        assert allowed(row) == {token}
        assert not row.complete
        row.accept(token)
    assert allowed(row) == ({ord("a"), 10, BLANK} if inner else None)


def test_a_mark_that_was_begun_within_the_budget_is_finished() -> None:
    row = watch(None, channel=SPELLED, budget=4)
    feed(row, b"xx</")
    assert allowed(row) is None  # the mark does not count
    feed(row, b"xx")
    assert allowed(row) == {ord("<")}


def test_a_budget_alone_counts_what_the_answer_opens() -> None:
    row = watch(None, is_open=False, budget=2)
    assert allowed(row) is None
    feed(row, [OPEN, 120])
    assert allowed(row) is None
    row.accept(120)
    assert allowed(row) == {CLOSE}
    feed(row, [CLOSE, 65, EOS])
    assert allowed(row) is None
    assert not row.complete


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([65, 10, OPEN, CLOSE, 97, 98, BLANK, EOS, 299]), max_size=30))
def test_a_row_that_starts_again_is_where_it_was(tokens: list[int]) -> None:
    for channel in (SINGLE, SPELLED):
        once = watch(Letters("ab" * 20), channel=channel, budget=5, is_open=False)
        again = watch(Letters("ab" * 20), channel=channel, budget=5, is_open=False)
        feed(once, tokens)
        feed(again, [OPEN, 65, CLOSE, 97])
        again.restart(tokens)
        assert allowed(once) == allowed(again)
        assert once.complete == again.complete
