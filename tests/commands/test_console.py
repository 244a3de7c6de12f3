"""The one output sink: data on stdout, everything else on stderr, JSON alone when asked for."""

from __future__ import annotations

import io
import json

import pytest

from commands._shared.console import Console
from core.errors import NotFound
from core.progress import Progress

ROWS = [{"name": "a/b", "size": 5, "secret": True}, {"name": "c [x]", "size": 12, "secret": None}]


class Streams:
    """A console with both its streams in memory."""

    def __init__(self, *, json_mode: bool = False) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(json_mode=json_mode, out=self.out, err=self.err)


def test_a_table_shows_the_columns_asked_for() -> None:
    streams = Streams()
    streams.console.table(ROWS, {"name": "NAME", "size": "SIZE"})
    lines = streams.out.getvalue().splitlines()
    assert [line.split() for line in lines] == [["NAME", "SIZE"], ["a/b", "5"], ["c", "[x]", "12"]]
    assert streams.err.getvalue() == ""


def test_a_table_as_json_keeps_every_key() -> None:
    streams = Streams(json_mode=True)
    streams.console.table(ROWS, {"name": "NAME"})
    assert json.loads(streams.out.getvalue()) == ROWS


def test_long_cells_are_not_folded_in_a_pipe() -> None:
    streams = Streams()
    streams.console.table([{"name": "x" * 300}], {"name": "NAME"})
    assert "x" * 300 in streams.out.getvalue()


def test_a_record_is_aligned_and_nested() -> None:
    streams = Streams()
    streams.console.record({"id": 1, "inner": {"long": None, "b": [1, 2], "ok": True}})
    assert streams.out.getvalue() == "id     1\ninner\n  long  -\n  b     1, 2\n  ok    yes\n"


def test_an_error_goes_to_stderr_in_two_sentences() -> None:
    streams = Streams(json_mode=True)
    streams.console.error(NotFound("There is no x.", hint="Try y."))
    assert streams.err.getvalue() == "mlxbun: There is no x.\n  Try y.\n"
    assert streams.out.getvalue() == ""


@pytest.mark.parametrize("total", [400, None])
def test_progress_in_a_log_is_a_line_per_quarter(total: int | None) -> None:
    streams = Streams()
    with streams.console.progress() as show:
        for done in range(0, 401, 7):
            show(Progress(task="copying", done=done, total=total))
        show(Progress(task="copying", done=400, total=total))
    lines = streams.err.getvalue().splitlines()
    if total:
        assert lines == [f"copying: {p}% of 400 B" for p in (0, 25, 50, 75, 100)]
    else:
        assert lines == ["copying"]


def test_progress_counts_what_it_is_told() -> None:
    streams = Streams()
    with streams.console.progress() as show:
        for done in (0, 3, 4):
            show(Progress(task="measuring", done=done, total=4, unit="figures"))
    lines = streams.err.getvalue().splitlines()
    assert lines == [f"measuring: {p}% of 4 figures" for p in (0, 75, 100)]


def test_progress_on_a_terminal_is_a_bar_with_amounts() -> None:
    streams = Streams()
    streams.err.isatty = lambda: True  # type: ignore[method-assign]
    with streams.console.progress() as show:
        show(Progress(task="measuring", done=3, total=4, unit="figures"))
        show(Progress(task="copying", done=2_000_000, total=None))
    shown = streams.err.getvalue()
    assert "3 of 4 figures" in shown
    assert "2 MB" in shown
