"""The one output sink: data on stdout, everything else on stderr, JSON alone when asked for."""

from __future__ import annotations

import io
import json
import math
import os
import threading
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from commands._shared.console import Console, ReaderGone
from commands._shared.streams import Streams
from core.errors import NotFound
from core.progress import Progress

ROWS = [{"name": "a/b", "size": 5, "secret": True}, {"name": "c [x]", "size": 12, "secret": None}]


class Sink:
    """A console with both its streams in memory."""

    def __init__(
        self,
        *,
        json_mode: bool = False,
        quiet: bool = False,
        plain: bool = False,
        terminal: bool = False,
    ) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        if terminal:
            self.out.isatty = self.err.isatty = lambda: True  # type: ignore[method-assign]
        streams = Streams(out=self.out, err=self.err, plain=plain)
        self.console = Console(json_mode=json_mode, quiet=quiet, streams=streams)

    def printed(self) -> Any:
        """Return the JSON document on stdout."""
        return json.loads(self.out.getvalue())


def test_a_table_shows_the_columns_asked_for() -> None:
    sink = Sink()
    sink.console.table(ROWS, {"name": "NAME", "size": "SIZE"})
    lines = sink.out.getvalue().splitlines()
    assert [line.split() for line in lines] == [["NAME", "SIZE"], ["a/b", "5"], ["c", "[x]", "12"]]
    assert sink.err.getvalue() == ""


def test_a_table_as_json_keeps_every_key() -> None:
    sink = Sink(json_mode=True)
    sink.console.table(ROWS, {"name": "NAME"}, key="rows")
    assert sink.printed() == {"schema": 1, "rows": ROWS}


def test_long_cells_are_not_folded_in_a_pipe() -> None:
    sink = Sink()
    sink.console.table([{"name": "x" * 300}], {"name": "NAME"})
    assert "x" * 300 in sink.out.getvalue()


def test_a_record_is_aligned_and_nested() -> None:
    sink = Sink()
    sink.console.record({"id": 1, "inner": {"long": None, "b": [1, 2], "ok": True}})
    assert sink.out.getvalue() == "id     1\ninner\n  long  -\n  b     1, 2\n  ok    yes\n"


def test_a_record_as_json() -> None:
    sink = Sink(json_mode=True)
    sink.console.record({"id": 1, "inner": {"b": (1, 2)}})
    assert sink.printed() == {"schema": 1, "id": 1, "inner": {"b": [1, 2]}}


def test_every_event_is_one_line_and_carries_the_version() -> None:
    sink = Sink(json_mode=True)
    sink.console.event({"event": "x", "name": "a\nb\x1b"})
    sink.console.event({"event": "y"})
    assert sink.out.getvalue() == (
        '{"schema": 1, "event": "x", "name": "a\\nb\\u001b"}\n{"schema": 1, "event": "y"}\n'
    )


@pytest.mark.parametrize("json_mode", [True, False])
def test_words_for_people_move_no_cursor(json_mode: bool) -> None:
    sink = Sink(json_mode=json_mode)
    sink.console.note("a\x1b[2J\x9b31m\u202eb\n\tc")
    sink.console.error(NotFound("no a\rb\x1b[2J", hint="try \x1b]0;t\x07"))
    told = sink.err.getvalue()
    assert all(character.isprintable() for character in told.replace("\n", "").replace("\t", ""))
    assert "\n\tc\n" in told


@pytest.mark.parametrize("indented", [True, False])
def test_json_moves_no_cursor_and_ends_no_line(indented: bool) -> None:
    sink = Sink(json_mode=True)
    name = "a\x1b[2J\x7f\x85\x9b31m\u2028\u202eb \N{GREEK SMALL LETTER ALPHA}"
    (sink.console.json if indented else sink.console.event)({"name": name})
    assert all(character.isprintable() for character in sink.out.getvalue().replace("\n", ""))
    assert "\N{GREEK SMALL LETTER ALPHA}" in sink.out.getvalue()
    assert sink.printed()["name"] == name


def test_json_holds_no_number_and_no_character_that_is_none() -> None:
    sink = Sink(json_mode=True)
    values = {
        "nan": math.nan,
        "inf": [math.inf],
        "half": "a\udcff",
        "path": Path("/x"),
        "é\udcff": 1,
    }
    sink.console.json(values)
    assert sink.printed() == {
        "schema": 1, "nan": None, "inf": [None], "half": "a\ufffd", "path": "/x", "é\ufffd": 1,
    }  # fmt: skip


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "UTF-16-LE"])
def test_a_stream_gets_what_it_can_encode(encoding: str) -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(json_mode=True, streams=Streams(out=out))
    console.json({"name": "é日\udc80"})
    written = raw.getvalue().decode(encoding)
    assert json.loads(written)["name"] == "é日\ufffd"
    console.text("é日…")
    shown = raw.getvalue().decode(encoding)[len(written) :]
    whole = encoding.lower().startswith("utf")
    assert shown == ("é日…" if whole else "???" if encoding == "ascii" else "é??")


def test_an_error_is_two_sentences_on_stderr() -> None:
    sink = Sink()
    sink.console.error(NotFound("There is no x.", hint="Try y."))
    assert sink.err.getvalue() == "mlxbun: There is no x.\n  Try y.\n"
    assert sink.out.getvalue() == ""


def test_an_error_is_an_object_too_for_who_reads_json() -> None:
    sink = Sink(json_mode=True)
    sink.console.error(NotFound("There is no x.", hint="Try y."))
    assert sink.err.getvalue() == "mlxbun: There is no x.\n  Try y.\n"
    told = {"message": "There is no x.", "hint": "Try y.", "exit_code": 3}
    assert sink.printed() == {"schema": 1, "event": "failed", "error": told}


def test_an_error_does_not_stand_beside_a_document() -> None:
    sink = Sink(json_mode=True)
    sink.console.json({"deleted": 3})
    sink.console.error(NotFound("There is no x."))
    assert sink.printed() == {"schema": 1, "deleted": 3}
    assert sink.err.getvalue() == "mlxbun: There is no x.\n"


def test_an_error_is_the_last_event() -> None:
    sink = Sink(json_mode=True)
    sink.console.event({"event": "plan"})
    sink.console.error(NotFound("There is no x."))
    assert [json.loads(line)["event"] for line in sink.out.getvalue().splitlines()] == [
        "plan",
        "failed",
    ]


def test_quiet_keeps_data_errors_and_replies() -> None:
    sink = Sink(quiet=True, terminal=True)
    sink.console.note("a note")
    with sink.console.progress() as show:
        show(Progress(task="copying", done=1, total=2))
    with sink.console.transfer() as view:
        view.say("a file came")
    assert (sink.out.getvalue(), sink.err.getvalue()) == ("", "")
    sink.console.text("data")
    sink.console.reply("what was asked for")
    sink.console.error(NotFound("There is no x."))
    assert sink.out.getvalue() == "data"
    assert sink.err.getvalue() == "what was asked for\nmlxbun: There is no x.\n"


@pytest.mark.parametrize(
    ("environ", "plain"),
    [
        ({}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "dumb"}, True),
        ({"NO_COLOR": "1"}, True),
        ({"NO_COLOR": ""}, False),
    ],
)
def test_what_makes_it_plain(environ: dict[str, str], plain: bool) -> None:
    assert Streams.of(environ).plain is plain


@pytest.mark.parametrize(("terminal", "plain"), [(False, False), (True, True)])
def test_no_escape_where_colors_are_not_wanted(
    terminal: bool, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # of which Rich knows, and we do not
    sink = Sink(terminal=terminal, plain=plain)
    _show_all(sink.console)
    assert not sink.console.styled
    assert "\x1b" not in sink.out.getvalue() + sink.err.getvalue()


def test_colors_and_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    sink = Sink(terminal=True)
    _show_all(sink.console)
    assert sink.console.styled
    assert "\x1b[1m" in sink.out.getvalue()
    assert "\x1b[" in sink.err.getvalue()


def _show_all(console: Console) -> None:
    console.table(ROWS, {"name": "NAME"})
    with console.progress() as show:
        show(Progress(task="copying", done=1, total=2))
    with console.transfer() as view:
        view.say("a file came")


@pytest.mark.parametrize("total", [400, None])
def test_progress_in_a_log_is_a_line_per_quarter(total: int | None) -> None:
    sink = Sink()
    with sink.console.progress() as show:
        for done in range(0, 401, 7):
            show(Progress(task="copying", done=done, total=total))
        show(Progress(task="copying", done=400, total=total))
    lines = sink.err.getvalue().splitlines()
    if total:
        assert lines == [f"copying: {p}% of 400 B" for p in (0, 25, 50, 75, 100)]
    else:
        assert lines == ["copying"]


def test_progress_counts_what_it_is_told() -> None:
    sink = Sink()
    with sink.console.progress() as show:
        for done in (0, 3, 4):
            show(Progress(task="measuring", done=done, total=4, unit="figures"))
    lines = sink.err.getvalue().splitlines()
    assert lines == [f"measuring: {p}% of 4 figures" for p in (0, 75, 100)]


def test_progress_on_a_terminal_is_a_bar_with_amounts() -> None:
    sink = Sink(terminal=True)
    with sink.console.progress() as show:
        show(Progress(task="measuring", done=3, total=4, unit="figures"))
        show(Progress(task="copying", done=2_000_000, total=None))
    shown = sink.err.getvalue()
    assert "3 of 4 figures" in shown
    assert "2 MB" in shown


class Pipe:
    """A pipe into which Python writes as it does with PYTHONUNBUFFERED."""

    def __init__(self, *, blocking: bool) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(writer, blocking)
        self.raw = os.fdopen(writer, "wb", buffering=0)
        stream = cast("BinaryIO", self.raw)
        self.out = io.TextIOWrapper(stream, encoding="utf-8", write_through=True)
        self.console = Console(streams=Streams(out=self.out))


@pytest.mark.parametrize("blocking", [True, False])
def test_all_of_a_long_text_arrives(blocking: bool) -> None:
    text = "é" * 1_000_000  # more than a pipe holds
    pipe = Pipe(blocking=blocking)
    read: list[bytes] = []
    with os.fdopen(pipe.reader, "rb") as end:
        reader = threading.Thread(target=lambda: read.append(end.read()))
        reader.start()
        pipe.console.text(text)
        pipe.raw.close()
        reader.join(30)
    assert read == [text.encode()]


def test_a_reader_that_goes_away_in_the_middle_is_noticed() -> None:
    pipe = Pipe(blocking=True)

    def read_a_little() -> None:
        os.read(pipe.reader, 5)
        os.close(pipe.reader)

    reader = threading.Thread(target=read_a_little)
    reader.start()
    with pytest.raises(ReaderGone):
        pipe.console.text("x" * 1_000_000)
    reader.join(30)


def test_progress_of_one_thing_counts_it_in_the_singular() -> None:
    sink = Sink()
    with sink.console.progress() as show:
        show(Progress(task="ingest", done=1, total=1, unit="items"))
    assert sink.err.getvalue() == "ingest: 100% of 1 item\n"
