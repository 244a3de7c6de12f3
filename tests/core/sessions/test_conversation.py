"""What entries make of a conversation, and what the model is shown of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.sessions.conversation import Conversation, Message, apply, replay, said
from core.sessions.export import as_jsonl, as_markdown
from core.sessions.text import clean, slug

TALK = [said("user", "a"), said("assistant", "A", finish="stop"), said("user", "b")]
ENTRIES = st.one_of(
    st.builds(said, st.sampled_from(["user", "assistant", "system", "tool"]), st.text(max_size=5)),
    st.builds(lambda text: {"type": "system", "content": text}, st.none() | st.text(max_size=5)),
    st.sampled_from([{"type": "undo"}, {"type": "retry"}, {"type": "model", "model": "m"}]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(["type", "message", "role", "content", "model", "finish"])


def _texts(entries: list[dict[str, Any]]) -> list[str]:
    return [message.content for message in replay(entries).messages]


def test_retry_gives_up_the_answer_and_undo_the_question_too() -> None:
    answered = [*TALK, said("assistant", "B")]
    assert _texts([*answered, {"type": "retry"}]) == ["a", "A", "b"]
    assert _texts([*TALK, {"type": "retry"}]) == ["a", "A", "b"]
    assert _texts([*answered, {"type": "retry"}, said("assistant", "C")]) == ["a", "A", "b", "C"]
    assert _texts([*answered, {"type": "undo"}]) == ["a", "A"]
    assert _texts([*answered, {"type": "undo"}, {"type": "undo"}, {"type": "undo"}]) == []


def test_system_and_model_change_on_the_way() -> None:
    now = replay(
        [{"type": "session", "model": "m"}, *TALK, {"type": "system", "content": "Be brief."}]
    )
    assert (now.model, now.system) == ("m", "Be brief.")
    after = replay([{"type": "system", "content": None}, {"type": "model", "model": "n"}], now)
    assert (after.model, after.system, after.messages) == ("n", None, now.messages)


def test_messages_of_other_programs_are_read() -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "image"}, {"type": "text", "text": "lo"}]
    entry = {"type": "message", "id": "1", "message": {"role": "user", "content": parts}}
    assert replay([entry]).messages == (Message(role="user", content="hello"),)


def test_the_model_sees_user_and_assistant_in_turns() -> None:
    unanswered = [*TALK, said("user", "c"), said("assistant", "", finish="cut"), said("user", "d")]
    assert replay(unanswered).prompt() == (
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "b\n\nc\n\nd"},
    )
    with_system = apply(Conversation(), {"type": "system", "content": "s"})
    assert with_system.prompt() == ({"role": "system", "content": "s"},)


@given(st.lists(ENTRIES, max_size=12))
def test_replaying_the_half_and_then_the_rest_is_the_same(entries: list[dict[str, Any]]) -> None:
    half = len(entries) // 2
    assert replay(entries[half:], replay(entries[:half])) == replay(entries)
    roles = [turn["role"] for turn in replay(entries).prompt()]
    assert all(left != right for left, right in pairwise(roles))


@given(st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON)))
def test_no_shape_of_an_entry_raises(entry: dict[str, Any]) -> None:
    apply(Conversation(), entry).prompt()


def test_exports() -> None:
    now = replay(
        [
            {"type": "session", "model": "acme/fox"},
            {"type": "system", "content": "Be brief."},
            said("user", "Why?"),
            said("assistant", "Be\x1b[31mcause", finish="cut"),
        ]
    )
    assert as_markdown(now) == (
        "*acme/fox*\n\n## System\n\nBe brief.\n\n## You\n\nWhy?\n\n## Assistant\n\n"
        "Be[31mcause\n\n*(stopped)*\n"
    )
    import json

    assert replay(map(json.loads, as_jsonl(now).splitlines())) == now


def test_clean_and_slug() -> None:
    assert clean("a\r\nb\rc\td\x1b\x9b\x7f\x00e\ud800") == "a\nbc\tde?"
    assert slug("What is the capital of France, please tell me now?") == (
        "what-is-the-capital-of-france-please-tell"
    )
    assert slug("Grün!") == "grun"
    assert slug("日本") == "chat"
    assert slug("x" * 100) == "x" * 40
