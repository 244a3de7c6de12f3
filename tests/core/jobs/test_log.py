"""Logs: whole events or none, whatever stands in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.jobs.log import LogWriter, last_event, read_events
from core.jobs.output import as_shown, read_output


def _all(path: Path) -> list[dict[str, object]]:
    events, offset = [], 0
    while (found := read_events(path, offset))[1] != offset:
        events += found[0]
        offset = found[1]
    return events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "job.ndjson"


def test_every_line_is_one_event_of_json(path: Path) -> None:
    log = LogWriter(path)
    events: list[dict[str, Any]] = [
        {"type": "log", "line": "a\nb \u2028 \ud800 \x1b[1m"},
        {"type": "metric", "loss": 1e400},
    ]
    for event in events:
        assert log.write(event)
    log.close()
    lines = path.read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"type": "log", "line": "a\nb \u2028 ? \x1b[1m"},
        {"type": "metric", "loss": None},
    ]
    assert _all(path) == [json.loads(line) for line in lines]


def test_numbers_of_other_libraries(path: Path) -> None:
    import numpy as np

    LogWriter(path).write(
        {"type": "metric", "loss": np.float32(0.5), "step": np.int64(3), "p": path}
    )
    assert _all(path) == [{"type": "metric", "loss": 0.5, "step": 3, "p": str(path)}]


def test_a_line_without_an_end_waits(path: Path) -> None:
    LogWriter(path).write({"type": "log", "line": "one"})
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_events(path) == ([], 0)
        assert last_event(path) is None
    assert read_events(path.with_name("none")) == ([], 0)


def test_the_next_writer_ends_a_line_that_was_cut(path: Path) -> None:
    LogWriter(path).write({"type": "log", "line": "one"})
    with path.open("ab") as file:
        file.write(b'{"type":"log","li')
    log = LogWriter(path)
    log.write({"type": "log", "line": "two"})
    log.write({"type": "log", "line": "three"})
    assert [event["line"] for event in _all(path)] == ["one", "two", "three"]
    assert path.read_bytes().count(b"\n") == 4


def test_what_is_no_event_is_passed_over(path: Path) -> None:
    path.parent.mkdir()
    lines = [b"", b"text", b"[1]", b"{}", b'{"type":5}', b"\xff\xfe", b"\x00" * 50, b"{" * 5000,
             b'{"a":' * 5000, b'{"type":"log","line":"here"}', b'{"type":"lo']  # fmt: skip
    path.write_bytes(b"\n".join(lines))
    assert _all(path) == [{"type": "log", "line": "here"}]
    assert last_event(path) == {"type": "log", "line": "here"}


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=300), cut=st.integers(0, 300))
def test_any_bytes_and_then_an_event(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "job.ndjson"
    path.write_bytes(data[:cut])
    LogWriter(path).write({"type": "log", "line": "last"})
    assert _all(path)[-1] == last_event(path) == {"type": "log", "line": "last"}


def test_long_logs_come_in_parts(path: Path) -> None:
    log = LogWriter(path)
    for number in range(300):
        log.write({"type": "log", "line": f"{number} " + "x" * 10_000})
    first, offset = read_events(path)
    assert 0 < len(first) < 300
    assert 0 < offset < path.stat().st_size
    assert [str(event["line"]).split()[0] for event in _all(path)] == [str(n) for n in range(300)]
    last = last_event(path)
    assert last is not None
    assert last["line"].startswith("299 ")


def test_a_line_of_megabytes_holds_nobody_up(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"x" * 3_000_000 + b'\n{"type":"log","line":"after"}\n')
    assert _all(path) == [{"type": "log", "line": "after"}]


def test_a_folder_that_is_not_there_for_a_while(path: Path) -> None:
    path.parent.write_text("in the way")
    log = LogWriter(path)
    assert not log.write({"type": "log", "line": "lost"})
    assert log.lost == 1
    path.parent.unlink()
    assert log.write({"type": "log", "line": "kept"})
    told = "1 event could not be written here: the disk did not take it."
    assert [event["line"] for event in _all(path)] == [told, "kept"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [("a", "a"), ("a\r", "a"), ("\r 1%\r 2%", " 2%"), ("1%\r2%\r", "2%"), ("", ""), ("a  ", "a")],
)
def test_bars_are_shown_as_they_end(line: str, shown: str) -> None:
    assert as_shown(line) == shown


def test_output_is_read_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    assert read_output(path, 0) == ([], 0)
    path.write_bytes(b"one\n\ntwo\nthr")
    assert read_output(path, 0) == (["one", "two"], 9)
    assert read_output(path, 9) == ([], 9)
    assert read_output(path, 9, whole=True) == (["thr"], 12)
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert read_output(path, 9) == (["three"], 15)
