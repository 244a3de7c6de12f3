"""What files of data hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.upload import data_facts
from core.upload.belongs import Selection
from core.upload.data_facts import DataFacts, read_data
from core.upload.gather import gather
from tests.core.upload.conftest import fill


def _read(folder: Path, **files: bytes) -> DataFacts:
    fill(folder, {name.replace("__", "."): data for name, data in files.items()})
    return read_data(gather(folder, "dataset", Selection()).files)


def test_json_lines(tmp_path: Path) -> None:
    row = b'{"messages": [], "id": 1}\n'
    facts = _read(tmp_path, train__jsonl=row * 3 + b"\n", valid__jsonl=row)
    assert (facts.rows, facts.columns, facts.format) == (4, ("messages", "id"), "chat")
    assert [(file.name, file.rows) for file in facts.files] == [
        ("train.jsonl", 3), ("valid.jsonl", 1),
    ]  # fmt: skip
    assert facts.size_category == "n<1K"


def test_csv(tmp_path: Path) -> None:
    facts = _read(tmp_path, a__csv=b'\xef\xbb\xbfprompt,completion\n"x\ny",2\n3,4\n')
    assert (facts.rows, facts.columns, facts.format) == (2, ("prompt", "completion"), "completions")


def test_rows_that_are_not_known(tmp_path: Path) -> None:
    facts = _read(tmp_path, a__jsonl=b'{"text": 1}\n', b__parquet=b"PAR1 PAR1")
    assert (facts.rows, facts.columns, facts.size_category) == (None, (), None)
    assert facts.files[0].rows == 1


def test_files_that_are_too_large_to_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_facts, "_MOST_COUNTED", 10)
    facts = _read(tmp_path, a__jsonl=b'{"text": 1}\n')
    assert (facts.rows, facts.columns) == (None, ("text",))


@pytest.mark.parametrize("data", [b"[1]\n", b"3\n", b"\xff\xfe\n", b"[" * 100_000])
def test_rows_without_columns(data: bytes, tmp_path: Path) -> None:
    assert _read(tmp_path, a__jsonl=data).columns == ()


@pytest.mark.parametrize("data", [b"\xff\xfe,\n", b'a,b\n"' + b"x" * 200_000, b"a\0b\n1\n"])
def test_csv_that_is_none(data: bytes, tmp_path: Path) -> None:
    assert _read(tmp_path, a__csv=data).rows in (None, 1)


def test_classes_of_sizes(tmp_path: Path) -> None:
    facts = _read(tmp_path, a__jsonl=b'{"text": 1}\n' * 1000)
    assert facts.size_category == "1K<n<10K"
    assert facts.format == "text"
    assert DataFacts(files=()).size_category is None
