"""Files on their way: lines in a log, bars on a terminal."""

from __future__ import annotations

import io
import re

from rich.console import Console as RichConsole

from commands._shared.console import Console
from commands._shared.streams import Streams
from commands._shared.transfer import LiveTransfer, PlainTransfer, amount_of
from core.progress import Progress, Transfer


def _moment(done: int, *, rate: float = 0.0, moving: tuple[Progress, ...] = ()) -> Transfer:
    return Transfer(
        task="org/name",
        moving=moving,
        done=done,
        total=10_000_000,
        rate=rate,
        files_done=1,
        files_total=3,
    )


def test_amounts_on_one_line() -> None:
    assert amount_of(_moment(0)) == "0 B of 10 MB"
    assert amount_of(_moment(4_000_000, rate=50_000)) == "4 MB of 10 MB, 50 kB/s, 2 min 0 s left"
    assert amount_of(_moment(1, rate=1)) == "1 B of 10 MB, 1 B/s"
    assert amount_of(_moment(9_999_999, rate=1e9)) == "10 MB of 10 MB, 1 GB/s, 1 s left"
    assert amount_of(_moment(10_000_000, rate=1e6)) == "10 MB of 10 MB, 1 MB/s"


def test_a_log_gets_a_line_every_five_seconds() -> None:
    now = [100.0]
    lines: list[str] = []
    view = PlainTransfer(lines.append, clock=lambda: now[0])
    for second in range(12):
        now[0] = 100.0 + second
        view.show(_moment(second * 100_000))
        if second == 7:
            view.say("a.json: 2 B, checked")
    assert lines == [
        "org/name: 500 kB of 10 MB",
        "a.json: 2 B, checked",
        "org/name: 1 MB of 10 MB",
    ]


def _drawn(width: int) -> str:
    stream = io.StringIO()
    rich = RichConsole(file=stream, force_terminal=True, width=width, color_system=None)
    one = Progress(task="[bold]one.safetensors", done=2_000_000, total=4_000_000)
    two = Progress(task="two.json", done=7, total=7)
    with LiveTransfer(rich) as view:
        view.show(_moment(1))
        view.show(_moment(2_000_000, rate=1e6, moving=(one, two)))
        view._bars.refresh()
        view.say("three.json: 3 B, checked [/bold]")
        view.show(_moment(2_000_000, moving=(two,)))
        view._bars.refresh()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def test_bars_for_all_and_for_each_file() -> None:
    drawn = _drawn(100)
    assert re.search(r"org/name +\S+ +2 MB of 10 MB, 1 MB/s, 8 s left", drawn)
    assert re.search(r"  \[bold\]one.safetensors +\S+ +2 MB of 4 MB", drawn)
    assert re.search(r"  two.json +\S+ +checking", drawn)
    assert "three.json: 3 B, checked [/bold]\n" in drawn
    assert "one.safetensors" not in drawn.rpartition("checked [/bold]")[2].rpartition("org/name")[2]


def test_a_narrow_terminal_still_shows_the_amounts() -> None:
    assert "2 MB of 10 MB, 1 MB/s, 8 s left" in _drawn(60)


def test_what_is_no_terminal_gets_lines() -> None:
    err = io.StringIO()
    with Console(streams=Streams(err=err)).transfer() as view:
        assert isinstance(view, PlainTransfer)
        view.say("hello")
    assert err.getvalue() == "hello\n"
