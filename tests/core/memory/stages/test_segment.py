"""Conversations are cut at turn boundaries, and nothing that a user said is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ContextTooLong
from core.memory.asking import Cancelled
from core.memory.stages.segment import (
    SCHEMA,
    SHORT_TOKENS,
    WINDOW_TOKENS,
    segment,
    turn_tokens,
    windows,
)
from tests.core.memory.scripted import ScriptedModel, conversation, never

LONG = "word " * SHORT_TOKENS
CHAT = conversation(*[LONG[:1200]] * 6, roles=("user", "assistant"))


def test_short_conversations_are_one_passage_without_a_question() -> None:
    model = ScriptedModel(lambda _question: {})
    passages, refusals = segment(conversation("hi", "bye"), model=model, cancelled=never)
    assert [passage.messages for passage in passages] == [("m1", "m2")]
    assert passages[0].id == "session:one#m1-m2"
    assert not refusals
    assert not model.asked


def test_segments_of_an_answer_become_passages() -> None:
    answer = {
        "segments": [
            {"first": "m1", "last": "m2", "title": "Porto"},
            {"first": "m3", "last": "m6", "title": "Work"},
        ]
    }
    model = ScriptedModel(lambda _question: answer)
    passages, refusals = segment(CHAT, model=model, cancelled=never)
    assert [(p.messages, p.title) for p in passages] == [
        (("m1", "m2"), "Porto"),
        (("m3", "m4", "m5", "m6"), "Work"),
    ]
    assert not refusals
    assert model.asked[0].schema == SCHEMA
    assert [turn["id"] for turn in model.asked[0].data["turns"]] == [
        "m1",
        "m2",
        "m3",
        "m4",
        "m5",
        "m6",
    ]


def test_what_no_segment_names_makes_passages_of_its_own() -> None:
    answer = {"segments": [{"first": "m3", "last": "m4", "title": "The middle"}]}
    passages, _ = segment(CHAT, model=ScriptedModel(lambda _question: answer), cancelled=never)
    assert [passage.messages for passage in passages] == [
        ("m1", "m2"),
        ("m3", "m4"),
        ("m5", "m6"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"segments": []},
        {"segments": "m1"},
        {"segments": [1]},
        {"segments": [{"first": "m1"}]},
        {"segments": [{"first": "m1", "last": "m99", "title": ""}]},
        {"segments": [{"first": "m4", "last": "m1", "title": ""}]},
        {
            "segments": [
                {"first": "m1", "last": "m4", "title": ""},
                {"first": "m3", "last": "m6", "title": ""},
            ]
        },
    ],
)
def test_a_broken_answer_is_refused_and_the_window_stays_whole(answer: dict[str, object]) -> None:
    model = ScriptedModel(lambda _question: answer)
    passages, (refusal,) = segment(CHAT, model=model, cancelled=never)
    assert [passage.messages for passage in passages] == [("m1", "m2", "m3", "m4", "m5", "m6")]
    assert refusal.stage == "segment"


def test_a_question_that_is_too_long_is_refused() -> None:
    def too_long(_question: object) -> dict[str, object]:
        raise ContextTooLong("too long", prompt_tokens=9, limit=8)

    passages, refusals = segment(CHAT, model=ScriptedModel(too_long), cancelled=never)
    assert len(passages) == len(refusals) == 1


def test_passages_without_a_user_turn_are_left_out() -> None:
    chat = conversation("I am the assistant", roles=("assistant",))
    assert segment(chat, model=ScriptedModel(lambda _q: {}), cancelled=never) == ((), ())


def test_cancelling_ends_it() -> None:
    with pytest.raises(Cancelled):
        segment(CHAT, model=ScriptedModel(lambda _q: {}), cancelled=lambda: True)


@given(st.lists(st.integers(min_value=1, max_value=3 * WINDOW_TOKENS), max_size=12))
def test_windows_hold_every_turn_once_and_stay_within_their_size(sizes: list[int]) -> None:
    turns = conversation(*["x" * (size * 3) for size in sizes]).turns
    found = list(windows(turns))
    assert tuple(turn for window in found for turn in window) == turns
    for window in found:
        assert len(window) == 1 or sum(map(turn_tokens, window)) <= WINDOW_TOKENS
