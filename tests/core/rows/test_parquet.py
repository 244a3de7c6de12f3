"""Data sets in Parquet files, and what is said where nothing can read them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from core.engine.tokenizer import Tokenizer
from core.errors import BackendMissing, NotFound, UsageProblem
from core.rows.files import read_rows
from core.rows.parquet import parquet_rows
from core.train.data import Dataset, inspect_dataset
from tests.core.train.test_data import ASK, CHAT, PAIR, TEXT, load, turn, write
from tests.tiny import make_model

needs_pyarrow = pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None, reason="pyarrow is an extra"
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = make_model(tmp_path_factory.mktemp("models") / "tiny")
    return Tokenizer.load(folder, eos_ids=256, shelf=None)


def write_parquet(file: Path, rows: list[Any]) -> Path:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    file.parent.mkdir(exist_ok=True)
    write_table(pa.Table.from_pylist(rows), file, row_group_size=2)
    return file


CALLS = {
    "messages": [
        turn("user", "Hi"),
        {"role": "assistant", "content": "Yo", "tool_calls": None},
    ]
}


@needs_pyarrow
@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        ([CHAT, CALLS, CHAT], {}),
        ([ASK, ASK | {"prompt": "Who?"}], {}),
        ([TEXT] * 5, {}),
        ([PAIR], {"method": "dpo"}),
    ],
    ids=["messages", "prompt-completion", "text", "dpo"],
)
def test_says_the_same_as_jsonl(
    tmp_path: Path, tokenizer: Tokenizer, rows: list[Any], fields: dict[str, Any]
) -> None:
    write(tmp_path / "lines", rows)
    write(tmp_path / "lines", rows[:1], "valid.jsonl")
    write_parquet(tmp_path / "table" / "train.parquet", rows)
    write_parquet(tmp_path / "table" / "valid.parquet", rows[:1])
    wanted = load(tmp_path / "lines", tokenizer, **fields)
    found = load(tmp_path / "table", tokenizer, **fields)
    assert found == wanted
    assert inspect_dataset(tmp_path / "table") == inspect_dataset(tmp_path / "lines")
    only = load(tmp_path / "table" / "train.parquet", tokenizer, **fields)
    assert only == Dataset(format=wanted.format, train=wanted.train, valid=(), broken=())


@needs_pyarrow
def test_broken_rows_are_told_by_number(tmp_path: Path, tokenizer: Tokenizer) -> None:
    rows = [{"text": "abc"}, {"text": None}, {"text": " "}, {"text": "d"}]
    data = load(write_parquet(tmp_path / "train.parquet", rows), tokenizer)
    assert len(data.train) == 2
    assert [(row.file, row.line, row.reason) for row in data.broken] == [
        ("train.parquet", 2, "it has no 'text'"),
        ("train.parquet", 3, "its 'text' is empty"),
    ]


@needs_pyarrow
def test_conversations_that_are_kept_as_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    file = write_parquet(
        tmp_path / "rows.parquet", [{"messages": json.dumps(CHAT["messages"]), "id": 3}]
    )
    assert load(file, tokenizer).train == load(write(tmp_path, [CHAT]), tokenizer).train


@needs_pyarrow
@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1"])
def test_what_is_no_parquet_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "train.parquet").write_bytes(content)
    with pytest.raises(UsageProblem, match=r"train\.parquet cannot be read: "):
        list(read_rows(tmp_path / "train.parquet"))


@needs_pyarrow
def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list(read_rows(tmp_path / "rows.parquet"))


def test_without_pyarrow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.rows.parquet.find_spec", lambda _name: None)
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(BackendMissing) as told:
        inspect_dataset(tmp_path)
    assert told.value.message == (
        "train.parquet needs pyarrow, which comes with the extra mlxbun[parquet]."
    )
    assert told.value.hint == "Run `pip install 'mlxbun[parquet]'`."
    with pytest.raises(BackendMissing):
        list(parquet_rows(tmp_path / "train.parquet"))
