"""Data sets as people write them, and as they get them wrong."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.request import ChatPrompt
from core.engine.retelling import Retelling
from core.engine.tokenizer import Tokenizer
from core.errors import NotFound, UsageProblem
from core.rows.examples import Conversation
from core.train.config import make_config
from core.train.data import Dataset, idle_fields, inspect_dataset, load_dataset, sequences
from core.train.encode import Encoded, EncodedPair, Encoder
from tests.tiny import make_model


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = make_model(tmp_path_factory.mktemp("models") / "tiny")
    return Tokenizer.load(folder, eos_ids=256, shelf=None)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = make_model(tmp_path_factory.mktemp("models") / "plain", chat_template=None)
    return Tokenizer.load(folder, eos_ids=256, shelf=None)


def write(folder: Path, rows: list[Any], name: str = "train.jsonl") -> Path:
    folder.mkdir(exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def load(folder: Path, tokenizer: Tokenizer, **fields: Any) -> Dataset:
    return load_dataset(make_config({"data_dir": str(folder), **fields}), tokenizer)


def learned(item: Encoded, tokenizer: Tokenizer) -> str:
    ids = [t for t, m in zip(item.tokens, item.response, strict=True) if m]
    return tokenizer.decoder(["<|im_end|>", "<|im_start|>"])(ids)


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


CHAT = {
    "messages": [
        turn("user", "Hi"),
        turn("assistant", "Yo"),
        turn("user", "A"),
        turn("assistant", "B"),
    ]
}
ASK = {"prompt": "Hi", "completion": "Yo"}
TEXT = {"text": "abc"}
PAIR = {"prompt": "Hi", "chosen": "good", "rejected": "bad"}


def only(data: Dataset) -> Encoded:
    (item,) = data.train
    assert isinstance(item, Encoded)
    return item


@pytest.mark.parametrize(
    ("row", "form"),
    [
        (CHAT, "messages"),
        (ASK, "prompt-completion"),
        (TEXT, "text"),
        (PAIR, "dpo"),
        ({}, "unknown"),
    ],
)
def test_tells_the_format(tmp_path: Path, row: dict[str, Any], form: str) -> None:
    write(tmp_path, [row, row])
    write(tmp_path, [row], "valid.jsonl")
    found = inspect_dataset(tmp_path)
    assert (found.n_train, found.n_valid, found.format) == (2, 1, form)


def test_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as problem:
        inspect_dataset(tmp_path)
    assert problem.value.message == f"{tmp_path / 'train.jsonl'} not found"


def test_learns_every_answer_with_its_end(tmp_path: Path, tokenizer: Tokenizer) -> None:
    item = only(load(write(tmp_path, [CHAT]), tokenizer))
    assert learned(item, tokenizer) == "Yo<|im_end|>B<|im_end|>"


def test_completion_is_a_turn(tmp_path: Path, tokenizer: Tokenizer) -> None:
    item = only(load(write(tmp_path, [ASK]), tokenizer))
    assert learned(item, tokenizer) == "Yo<|im_end|>"
    text = tokenizer.decoder(["<|im_end|>", "<|im_start|>"])(list(item.tokens))
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"


def test_completion_without_a_template(tmp_path: Path, plain: Tokenizer) -> None:
    item = only(load(write(tmp_path, [ASK]), plain))
    assert item.tokens == (*b"HiYo", 256)
    assert item.response == b"\0\0\1\1\1"


def test_text_is_learned_whole(tmp_path: Path, tokenizer: Tokenizer) -> None:
    item = only(load(write(tmp_path, [TEXT]), tokenizer))
    assert item.tokens == (*b"abc", 256)
    assert item.response == b"\0\1\1\1" == item.everything


def test_tools_reach_the_template(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    template = (
        "{% if tools %}T{{ tools | length }}{% endif %}{% for m in messages %}<|im_start|>"
        "{{ m['role'] }}\n{{ m['content'] }}{% for c in m['tool_calls'] or [] %}"
        "{{ c['function']['arguments'] | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    folder = make_model(tmp_path_factory.mktemp("tools") / "m", chat_template=template)
    tokenizer = Tokenizer.load(folder, eos_ids=256, shelf=None)
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    row = {
        "messages": [
            turn("user", "Hi"),
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    item = only(load(write(tmp_path, [row]), tokenizer))
    assert learned(item, tokenizer) == '{"a": 1}<|im_end|>'
    assert tokenizer.decode(item.tokens).startswith("T1")


def test_tools_of_which_the_template_knows_nothing_are_told_in_words(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    calls = [
        {"type": "function", "function": {"name": name, "arguments": {"a": 1}}} for name in "fg"
    ]
    row: dict[str, Any] = {
        "messages": [
            turn("user", "Hi"),
            {"role": "assistant", "content": "", "tool_calls": calls},
            turn("tool", "3"),
            turn("tool", "4"),
            turn("assistant", "7"),
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    item = only(load(write(tmp_path, [row]), tokenizer))
    words = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {{"a": 1}}}}\n</tool_call>' for name in "fg"
    ]
    assert learned(item, tokenizer) == f"{words[0]}\n{words[1]}<|im_end|>7<|im_end|>"
    asked = ChatPrompt(messages=tuple(row["messages"][:1]), tools=tuple(row["tools"]))
    served = Retelling(tokenizer).retell(asked)
    begin = tokenizer.encode(tokenizer.render(served), special=False)
    assert list(item.tokens[: len(begin)]) == begin
    pair = {
        "prompt": row["messages"][:-1],
        "chosen": [turn("assistant", "7")],
        "rejected": [turn("assistant", "8")],
        "tools": row["tools"],
    }
    (both,) = load(write(tmp_path, [pair]), tokenizer, method="dpo").train
    assert [learned(part, tokenizer) for part in sequences(both)] == [
        "7<|im_end|>",
        "8<|im_end|>",
    ]


def test_earlier_answers_that_the_template_rewrites_are_not_learned(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
        "{{ '..' if m['role'] == 'assistant' and not loop.last else m['content'] }}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    folder = make_model(tmp_path_factory.mktemp("rewriting") / "m", chat_template=template)
    tokenizer = Tokenizer.load(folder, eos_ids=256, shelf=None)
    item = only(load(write(tmp_path, [CHAT]), tokenizer))
    assert learned(item, tokenizer) == "B<|im_end|>"


@pytest.mark.parametrize(
    "row",
    [
        PAIR,
        {
            "prompt": [turn("user", "Hi")],
            "chosen": [turn("assistant", "good")],
            "rejected": [turn("assistant", "bad")],
        },
        {
            "chosen": [turn("user", "Hi"), turn("assistant", "good")],
            "rejected": [turn("user", "Hi"), turn("assistant", "bad")],
        },
    ],
)
def test_pairs(tmp_path: Path, tokenizer: Tokenizer, row: dict[str, Any]) -> None:
    (item,) = load(write(tmp_path, [row]), tokenizer, method="dpo").train
    assert isinstance(item, EncodedPair)
    answers = [learned(part, tokenizer) for part in sequences(item)]
    assert answers == ["good<|im_end|>", "bad<|im_end|>"]


CALL_OF_5 = {"function": {"name": "f", "arguments": 5}}


def test_broken_rows_are_told_with_line_and_reason(tmp_path: Path, tokenizer: Tokenizer) -> None:
    rows: list[Any] = [
        CHAT,
        "{not json",
        [1],
        "",
        {"messages": []},
        {"messages": [turn("user", "alone")]},
        {"messages": [turn("robot", "x")]},
        TEXT,
        {"other": 1},
        '"\\ud800"',
        {"messages": [turn("user", "a"), {"role": "assistant", "content": 5}]},
        {"messages": [turn("user", "a"), {"role": "assistant", "content": [{"type": "text"}]}]},
        '{"messages": [], "messages": []}',
        {**CHAT, "tools": [{"name": "\ud800"}]},
        {"messages": [turn("user", "a"), {**turn("assistant", "b"), "tool_calls": [CALL_OF_5]}]},
    ]
    data = load(write(tmp_path, rows), tokenizer)
    assert len(data.train) == 1
    assert [(row.line, row.reason) for row in data.broken] == [
        (2, "it is not JSON (Expecting property name enclosed in double quotes, column 2)"),
        (3, "it is not a JSON object"),
        (5, "its 'messages' is no list of messages"),
        (6, "none of its messages is the assistant's"),
        (
            7,
            "message 1 of its 'messages' has the role 'robot'; "
            "there are system, user, assistant, tool",
        ),
        (8, "it is text, where the other rows are messages"),
        (9, "it has no 'messages'"),
        (10, "it is not a JSON object"),
        (11, "the content of message 2 of its 'messages' is no text"),
        (12, "message 2 of its 'messages' holds something else than text"),
        (13, "it says 'messages' twice"),
        (14, "it holds half a character"),
        (15, "the arguments of a tool call of message 2 of its 'messages' are no object"),
    ]
    with pytest.raises(UsageProblem, match=r"13 rows cannot be used: train.jsonl, line 2"):
        load(tmp_path, tokenizer, strict=True)


def test_cut_rows_are_counted(tmp_path: Path, plain: Tokenizer) -> None:
    rows = [
        {"prompt": "x" * 5, "completion": "y" * 20},
        {"prompt": "x" * 50, "completion": "y"},
        ASK,
    ]
    data = load(write(tmp_path, rows), plain, max_seq_length=10)
    assert (len(data.train), data.cut) == (2, 1)
    assert [row.reason for row in data.broken] == [
        "its response lies beyond max_seq_length (10 tokens)"
    ]


def test_csv(tmp_path: Path, plain: Tokenizer) -> None:
    with (tmp_path / "train.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["prompt", "completion"], ["a,b\nc", "d"], ["x"], ["p", ""]])
    data = load(tmp_path, plain)
    assert only(data).tokens == (*b"a,b\ncd", 256)
    assert [(row.line, row.reason) for row in data.broken] == [
        (4, "it has 1 cell under 2 headings"),
        (5, "its 'completion' is empty"),
    ]


def test_split_is_by_seed(tmp_path: Path, plain: Tokenizer) -> None:
    write(tmp_path, [{"text": f"row {n}"} for n in range(20)])
    parts = [load(tmp_path / "train.jsonl", plain, valid_split=0.25, seed=s) for s in (0, 0, 1)]
    assert [len(part.valid) for part in parts] == [5, 5, 5]
    assert parts[0] == parts[1] != parts[2]
    assert not set(parts[0].train) & set(parts[0].valid)


@pytest.mark.parametrize(
    ("row", "fields", "told"),
    [
        (CHAT, {"method": "dpo"}, "learns from preference pairs"),
        (PAIR, {}, "learns from no pairs"),
        ({"a": 1}, {}, "of a format that is known here"),
        (TEXT, {"valid_split": 0.5}, "leaves one part empty"),
        (TEXT, {"early_stopping": 2}, "early_stopping needs validation data"),
    ],
)
def test_data_that_does_not_go_with_the_method(
    tmp_path: Path, tokenizer: Tokenizer, row: Any, fields: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageProblem, match=told):
        load(write(tmp_path, [row]), tokenizer, **fields)


def test_other_files_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "rows.arrow").write_bytes(b"ARROW1")
    with pytest.raises(UsageProblem, match="not a kind of file"):
        load(tmp_path / "rows.arrow", tokenizer)


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant"]), st.text(min_size=1)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=40, deadline=None)
def test_the_mask_covers_the_answers_and_nothing_else(
    tokenizer: Tokenizer, turns: list[tuple[str, str]]
) -> None:
    messages = tuple(turn(role, text) for role, text in (*turns, ("assistant", "end")))
    item = Encoder(tokenizer, max_seq_length=10_000).encode(Conversation(messages=messages))
    assert isinstance(item, Encoded)
    answers = [m["content"] for m in messages if m["role"] == "assistant"]
    expected = [token for text in answers for token in (*text.encode(), 256)]
    assert [t for t, m in zip(item.tokens, item.response, strict=True) if m] == expected


def test_what_is_wrong_with_all_rows_is_said_once(tmp_path: Path, tokenizer: Tokenizer) -> None:
    rows: list[Any] = [CHAT, *({"text": "a"} for _ in range(20))]
    with pytest.raises(UsageProblem) as problem:
        load(write(tmp_path, rows), tokenizer, strict=True)
    assert problem.value.message == (
        "20 rows cannot be used: train.jsonl, line 2 and 19 more: it is text, where the other rows "
        "are messages."
    )


def marked(*marks: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    return {"messages": [{**turn(role, content), **more} for role, content, more in marks]}


OFF: dict[str, Any] = {"weight": 0}
ON: dict[str, Any] = {"weight": 1}


@pytest.mark.parametrize("off", [{"weight": 0}, {"weight": 0.0}, {"train": False}])
@pytest.mark.parametrize("on", [{}, {"weight": 1}, {"train": True}, {"weight": None}])
def test_a_message_of_weight_0_is_not_learned(
    tmp_path: Path, tokenizer: Tokenizer, off: dict[str, Any], on: dict[str, Any]
) -> None:
    row = marked(
        ("user", "Hi", {}), ("assistant", "Yo", off), ("user", "A", {}), ("assistant", "B", on)
    )
    item = only(load(write(tmp_path, [row]), tokenizer))
    plain = only(load(write(tmp_path, [CHAT]), tokenizer))
    assert item.tokens == plain.tokens  # the template is not shown the marks
    assert learned(item, tokenizer) == "B<|im_end|>"


def test_the_last_message_may_be_the_one_that_is_not_learned(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    row = marked(
        ("user", "Hi", {}), ("assistant", "Yo", {}), ("user", "A", {}), ("assistant", "B", OFF)
    )
    item = only(load(write(tmp_path, [row]), tokenizer))
    assert learned(item, tokenizer) == "Yo<|im_end|>"


def test_the_full_scope_leaves_marked_messages_out(tmp_path: Path, tokenizer: Tokenizer) -> None:
    row = marked(
        ("user", "Hi", OFF), ("assistant", "Yo", OFF), ("user", "A", {}), ("assistant", "B", {})
    )
    item = only(load(write(tmp_path, [row]), tokenizer, sft_scope="full"))
    ids = [t for t, m in zip(item.tokens, item.everything, strict=True) if m]
    text = tokenizer.decoder(["<|im_end|>", "<|im_start|>"])(ids)
    assert text.endswith("<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n")
    assert "Hi" not in text
    assert "Yo" not in text


def test_marks_of_answers_in_pairs(tmp_path: Path, tokenizer: Tokenizer) -> None:
    answer = [turn("assistant", "a"), turn("user", "b"), {**turn("assistant", "c"), **OFF}]
    row = {"prompt": "Hi", "chosen": answer, "rejected": [turn("assistant", "no")]}
    (pair,) = load(write(tmp_path, [row]), tokenizer, method="dpo").train
    assert isinstance(pair, EncodedPair)
    assert learned(pair.chosen, tokenizer) == "a<|im_end|>"


@pytest.mark.parametrize(
    ("marks", "why"),
    [
        ({"weight": 2}, "the weight of message 2 of its 'messages' is 2; it must be 0 or 1"),
        ({"weight": 0.5}, "is 0.5; it must be 0 or 1"),
        ({"weight": True}, "is True; it must be 0 or 1"),
        ({"weight": "0"}, "is '0'; it must be 0 or 1"),
        ({"weight": [0]}, "is [0]; it must be 0 or 1"),
        ({"train": 1}, "the 'train' of message 2 of its 'messages' is 1"),
        ({"weight": 0, "train": True}, "says weight 0 and train true"),
        ({"weight": 0}, "none of its assistant messages is learned"),
    ],
)
def test_marks_that_cannot_be(
    tmp_path: Path, tokenizer: Tokenizer, marks: dict[str, Any], why: str
) -> None:
    row = marked(("user", "Hi", {}), ("assistant", "Yo", marks))
    (broken,) = load(write(tmp_path, [row, CHAT]), tokenizer).broken
    assert why in broken.reason


def test_marks_of_others_than_the_assistant(tmp_path: Path, tokenizer: Tokenizer) -> None:
    row = marked(("user", "Hi", ON), ("assistant", "Yo", ON))
    write(tmp_path, [row])
    data = load(tmp_path, tokenizer)
    assert learned(only(data), tokenizer) == "Yo<|im_end|>"
    (note,) = idle_fields(make_config({}), data)
    assert "weight 1 (or train true) does nothing" in note
    full = make_config({"sft_scope": "full"})
    assert list(idle_fields(full, load(tmp_path, tokenizer, sft_scope="full"))) == []
