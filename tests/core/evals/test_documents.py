"""Documents as token sequences: the chat template where it can be used, else plain text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import processors

from core.engine.tokenizer import Tokenizer
from core.errors import BadModelFiles, UsageProblem
from core.evals import documents as module
from core.evals.documents import (
    Document,
    choose_rows,
    digest_of,
    read_documents,
    sample_rows,
    token_rows,
)
from core.rows.examples import PlainText
from tests.tiny import CHAT_TEMPLATE, make_model

CHAT = [
    {"role": "user", "content": "Where does the river go?"},
    {"role": "assistant", "content": "To the sea."},
]
TOOL = {
    "type": "function",
    "function": {"name": "depth", "description": "Depth of a river.", "parameters": {}},
}


def tokenizer_of(folder: Path, template: str | None = CHAT_TEMPLATE) -> Tokenizer:
    make_model(folder, chat_template=template)
    return Tokenizer.load(folder, eos_ids=256, shelf=None)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tokenizer_of(tmp_path_factory.mktemp("models") / "tiny")


def documents(folder: Path, *rows: dict[str, Any]) -> list[Document]:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_documents(file)


def text(*contents: str, domain: str = "text") -> list[Document]:
    return [
        Document(domain=domain, example=PlainText(text=content), line=line)
        for line, content in enumerate(contents, 1)
    ]


def test_every_token_is_in_one_sequence(tokenizer: Tokenizer) -> None:
    content = "The river runs to the sea. " * 5
    rows = token_rows(text(content), tokenizer, length=16)
    joined = [token for row in rows.rows for token in row]
    assert tokenizer.decode(joined) == content.rstrip("\n") + "\n\n"
    assert [len(row) for row in rows.rows[:-1]] == [16] * (len(rows.rows) - 1)


def test_a_single_token_at_the_end_is_no_sequence(tokenizer: Tokenizer) -> None:
    rows = token_rows(text("a" * 15), tokenizer, length=16)  # and two line ends
    assert [len(row) for row in rows.rows] == [16]


def test_domains_are_not_mixed(tokenizer: Tokenizer) -> None:
    mixed = [
        *text("one " * 9, domain="a"),
        *text("two " * 9, domain="b"),
        *text("three", domain="a"),
    ]
    rows = token_rows(mixed, tokenizer, length=16)
    assert list(dict.fromkeys(rows.domains)) == ["a", "b"]
    for row, domain in zip(rows.rows, rows.domains, strict=True):
        assert ("two" in tokenizer.decode(list(row))) == (domain == "b")


def test_every_sequence_begins_as_the_tokenizer_begins_texts(tmp_path: Path) -> None:
    make_model(tmp_path)
    backend = Backend.from_file(str(tmp_path / "tokenizer.json"))
    backend.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 258)]
    )
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path, eos_ids=256, shelf=None)
    rows = token_rows(text("x" * 40, "y" * 3), tokenizer, length=16).rows
    assert all(row[0] == 258 for row in rows)
    assert [len(row) for row in rows[:-1]] == [16] * (len(rows) - 1)
    letters = [token for row in rows for token in row if token != 258]
    assert tokenizer.decode(letters) == "x" * 40 + "\n\nyyy\n\n"


def test_conversations_go_through_the_template(tokenizer: Tokenizer, tmp_path: Path) -> None:
    rows = token_rows(documents(tmp_path, {"messages": CHAT}), tokenizer, length=512)
    shown = tokenizer.decoder(["<|im_start|>", "<|im_end|>"])(rows.rows[0])
    assert shown == (
        "<|im_start|>user\nWhere does the river go?<|im_end|>\n"
        "<|im_start|>assistant\nTo the sea.<|im_end|>\n"
    )
    assert rows.notes == ()


def test_tools_and_calls_are_shown(tokenizer: Tokenizer, tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "depth", "arguments": '{"m": 3}'}}
    messages = [
        CHAT[0],
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "12 m"},
        CHAT[1],
    ]
    given = documents(tmp_path, {"messages": messages, "tools": [TOOL]})
    shown = tokenizer.decode(token_rows(given, tokenizer, length=4096).rows[0])
    assert "Depth of a river." in shown
    assert '"m": 3' in shown
    assert "12 m" in shown
    assert "Depth of a river." in given[0].pieces
    assert "function" in given[0].pieces  # a word of the schema, too short for a run


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "it has none"),
        ("{{ raise_exception('no guests') }}", "no guests"),
        ("{{ messages[9].content.x.y }}", "has no element 9"),
    ],
)
def test_without_a_usable_template_roles_stand_in_front(
    tmp_path: Path, template: str | None, reason: str
) -> None:
    tokenizer = tokenizer_of(tmp_path / "model", template)
    given = documents(tmp_path, {"messages": CHAT}, {"text": "Rivers run."})
    rows = token_rows(given, tokenizer, length=512)
    shown = tokenizer.decode(rows.rows[0])
    assert shown == "user: Where does the river go?\nassistant: To the sea.\n\n"
    assert len(rows.notes) == 1
    assert rows.notes[0].startswith("1 of 1 conversations are read as plain text")
    assert reason in rows.notes[0]


def test_a_template_that_does_not_end_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    tokenizer = tokenizer_of(tmp_path / "model", loops)
    monkeypatch.setattr(module, "_TEMPLATE_SECONDS", 0.2)
    given = documents(tmp_path, {"messages": CHAT}, {"messages": CHAT}, {"messages": CHAT})
    rows = token_rows(given, tokenizer, length=512)
    assert tokenizer.decode(rows.rows[0]).startswith("user: Where")
    assert "3 of 3 conversations" in rows.notes[0]
    assert "did not return within 0.2 seconds" in rows.notes[0]


def test_tokens_beyond_the_embedding_are_refused(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(tmp_path)
    tokenizer.limit(100)
    with pytest.raises(BadModelFiles, match="vocabulary has the ids 0 to 99"):
        token_rows(text("river"), tokenizer, length=16)


def test_the_digest_is_of_what_is_written(tmp_path: Path) -> None:
    one = documents(tmp_path, {"messages": CHAT})
    same = documents(tmp_path, {"messages": [dict(reversed(turn.items())) for turn in CHAT]})
    other = documents(tmp_path, {"messages": CHAT[::-1]})
    assert digest_of(one) == digest_of(same) != digest_of(other)


def test_rows_are_sampled_by_seed(tokenizer: Tokenizer) -> None:
    rows = token_rows(text("The river runs. " * 40), tokenizer, length=16)
    some = sample_rows(rows, 5, seed=1)
    assert some == sample_rows(rows, 5, seed=1) != sample_rows(rows, 5, seed=2)
    assert len(set(some.rows)) <= 5 == len(some.rows)
    assert sample_rows(rows, -1, seed=1) == sample_rows(rows, 10_000, seed=1) == rows


def test_rows_are_chosen_from_domains_in_turn(tokenizer: Tokenizer) -> None:
    mixed = [*text("a" * 160, domain="a"), *text("b" * 40, domain="b")]
    rows = token_rows(mixed, tokenizer, length=16)
    assert choose_rows(rows, 3).domains == ("a", "a", "b")
    assert choose_rows(rows, 8).domains.count("b") == 3


def test_deep_json_is_a_broken_row(tmp_path: Path) -> None:
    deep = "[" * 900 + "]" * 900
    file = tmp_path / "deep.jsonl"
    file.write_text(
        '{"messages": [{"role": "assistant", "content": "x"}], "tools": [{"a": %s}]}' % deep
    )
    try:
        found = read_documents(file)
    except UsageProblem as problem:
        assert "deep.jsonl, line 1" in problem.message
    else:
        assert digest_of(found)
        assert found[0].pieces
