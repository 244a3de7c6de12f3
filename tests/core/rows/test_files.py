"""Rows of hostile files: told as broken, and in time that grows with the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.errors import UsageProblem
from core.rows.examples import RowProblem, read_example
from core.rows.files import BrokenRow, RawRow, read_rows

MANY = 60_000  # names; counted anew for each of them, they would take minutes


def test_a_name_that_comes_twice_among_many(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    names = ",".join(f'"n{number}": 0' for number in range(MANY))
    file.write_text(f'{{{names}, "n{MANY - 1}": 1}}\n')
    (row,) = read_rows(file)
    assert isinstance(row, BrokenRow)
    assert row.reason == f"it says 'n{MANY - 1}' twice"


def test_headings_of_which_one_comes_twice_among_many(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(",".join(f"n{number}" for number in range(MANY)) + f",n{MANY - 1}\n")
    with pytest.raises(UsageProblem, match=f"the heading 'n{MANY - 1}' twice"):
        list(read_rows(file))


def test_json_within_a_cell_that_is_nested_beyond_all_measure(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    deep = "[" * 100_000
    file.write_text(f"messages,text\n{deep},a\n")
    assert list(read_rows(file)) == [RawRow(line=2, values={"messages": deep, "text": "a"})]


def test_arguments_that_are_nested_beyond_all_measure() -> None:
    call = {"function": {"name": "f", "arguments": "[" * 100_000}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    with pytest.raises(RowProblem, match="are not JSON"):
        read_example(json.loads(json.dumps({"messages": messages})), "messages")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_pipe_or_a_folder_is_refused_without_waiting(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(pipe := tmp_path / f"pipe{suffix}")
    (folder := tmp_path / f"folder{suffix}").mkdir()
    for path in (pipe, folder):
        with pytest.raises(UsageProblem, match="is not a regular file"):
            list(read_rows(path))
