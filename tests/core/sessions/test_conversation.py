"""What entries make of a conversation, and what the model is shown of it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.sessions.conversation import (
    Call,
    Conversation,
    Message,
    apply,
    replay,
    resulted,
    said,
)
from core.sessions.export import as_jsonl, as_markdown
from core.sessions.text import clean, slug

TALK = [said("user", "a"), said("assistant", "A", finish="stop"), said("user", "b")]
LOOK = Call(id="call_1", name="memory_search", arguments='{"query": "Lyon"}')
MORE = Call(id="call_2", name="memory_read", arguments='{"name": "Lyon"}')
ENTRIES = st.one_of(
    st.builds(said, st.sampled_from(["user", "assistant", "system", "tool"]), st.text(max_size=5)),
    st.builds(lambda text: {"type": "system", "content": text}, st.none() | st.text(max_size=5)),
    st.sampled_from([{"type": "undo"}, {"type": "retry"}, {"type": "model", "model": "m"}]),
    st.sampled_from([said("assistant", "", calls=(LOOK,)), resulted(LOOK, "found")]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(
    ["type", "message", "role", "content", "model", "finish", "tool_calls", "tool_call_id"]
)


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


def test_calls_and_results_are_replayed_to_the_model() -> None:
    entries = [
        *TALK,
        said("assistant", "", finish="tool_calls", calls=(LOOK, MORE)),
        resulted(LOOK, "found"),
        resulted(MORE, "read"),
        said("assistant", "B", finish="stop"),
        said("user", "c"),
    ]
    talk = replay(json.loads(json.dumps(entries)))
    assert talk.prompt()[2:] == (
        {"role": "user", "content": "b"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "memory_search", "arguments": '{"query": "Lyon"}'},
                },
                {
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "memory_read", "arguments": '{"name": "Lyon"}'},
                },
            ],
        },
        {"role": "tool", "content": "found", "tool_call_id": "call_1", "name": "memory_search"},
        {"role": "tool", "content": "read", "tool_call_id": "call_2", "name": "memory_read"},
        {"role": "assistant", "content": "B"},
        {"role": "user", "content": "c"},
    )
    assert talk.question == Message(role="user", content="c")
    assert [m.role for m in apply(talk, {"type": "undo"}).messages][-1] == "assistant"
    assert replay([json.loads(line) for line in as_jsonl(talk).splitlines()]) == talk
    assert '*memory_search* `{"query": "Lyon"}`\n\n' in as_markdown(talk)
    assert "## Tool: memory_read\n\nread\n" in as_markdown(talk)


def test_rounds_that_the_model_may_go_on_from_are_kept() -> None:
    entries = [*TALK, said("assistant", "Let me see.", calls=(LOOK,)), resulted(LOOK, "found")]
    assert [turn["role"] for turn in replay(entries).prompt()][2:] == ["user", "assistant", "tool"]


def test_rounds_without_an_end_are_left_out() -> None:
    call, result = said("assistant", "Let me see.", calls=(LOOK,)), resulted(LOOK, "found")
    silent = said("assistant", "", calls=(MORE,))
    cut, more = said("assistant", "", finish="cut"), said("user", "c")
    words = {"role": "assistant", "content": "Let me see."}
    kept = ({"role": "user", "content": "b"}, words, {"role": "user", "content": "c"})
    assert replay([*TALK, call, result, cut, more]).prompt()[2:] == kept  # stopped by Ctrl-C
    assert replay([*TALK, call, more]).prompt()[2:] == kept  # killed before the result
    assert replay([*TALK, call, result, silent, more]).prompt()[2:] == kept
    alone = replay([*TALK, resulted(LOOK, "of nothing"), silent])
    assert alone.prompt()[2:] == ({"role": "user", "content": "b"},)


def test_a_result_is_never_a_word_of_the_user() -> None:
    talk = replay([*TALK, said("assistant", "", calls=(LOOK,)), resulted(LOOK, "I live in Lyon.")])
    assert "Lyon." not in " ".join(m.content for m in talk.messages if m.role == "user")
    assert replay([said("tool", "without a call")]).messages == ()


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
