"""`python -m benchmarks.plots`: the pictures of docs/performance.md, from a run of `mlxbun bench`.

One run over rows 1 to 32 and prompts of 128 to 4,096 tokens, drawn twice: the decode step over
rows, and TTFT over the prompt's length with and without the prompt cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.bench.plot import STYLE, draw_spread, new_figure, write_picture
from core.figures import FigureStore, Run, machine_key

if TYPE_CHECKING:
    from core.figures import Figure

_MEASURE = ("--prompts", "128,256,512,1024,2048,4096", "--rows", "1,2,4,8,16,32", "--batch", "32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="starter")
    parser.add_argument("--repeats", default="5")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    run = measure(options.model, options.repeats)
    _draw(run, options.out / "decode-step.svg", "Decode step, ms", "rows", _decode)
    _draw(run, options.out / "ttft.svg", "Time to first token, s", "prompt tokens", _ttft)


def measure(model: str, repeats: str) -> Run:
    """Measure in a process of its own and return what it stored."""
    script = str(Path(sys.executable).with_name("mlxbun"))
    with tempfile.TemporaryDirectory() as home:
        command = [script, "bench", model, *_MEASURE, "--repeats", repeats]
        subprocess.run(command, env=os.environ | {"MLXBUN_HOME": home}, check=True)
        (run,) = FigureStore(Path(home) / "bench.db").runs(limit=1)
    return run


def _draw(run: Run, path: Path, title: str, along: str, draw: Any) -> None:
    from matplotlib import rc_context

    with rc_context(STYLE):
        when = f"{machine_key(run.machine)}, {run.measured_at[:10]}; {run.settings.loaded_as}"
        picture, (panel,) = new_figure(1, title=title, subtitle=when)
        sizes = draw(panel, run)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
        panel.set_xlabel(along)
        write_picture(picture, path)


def _decode(panel: Any, run: Run) -> list[int]:
    # A step gives each row one token: its time is rows over tokens a second.
    steps = [
        replace(
            f,
            median=1000 * f.size / f.median,
            low=1000 * f.size / f.high,
            high=1000 * f.size / f.low,
        )
        for f in _of(run, "decode")
    ]
    _line(panel, steps, "blue", "o")
    panel.set_ylim(bottom=0)
    return [figure.size for figure in steps]


def _ttft(panel: Any, run: Run) -> list[int]:
    cold = _of(run, "ttft_cold")
    _line(panel, cold, "blue", "o", label="new prompt")
    _line(panel, _of(run, "ttft_warm"), "orange", "s", label="same prompt again")
    panel.set_yscale("log")
    panel.legend(loc="upper left")
    return [figure.size for figure in cold]


def _of(run: Run, kind: str) -> list[Figure]:
    return sorted((f for f in run.figures if f.kind == kind), key=lambda figure: figure.size)


def _line(panel: Any, figures: list[Figure], colour: str, marker: str, label: str = "") -> None:
    draw_spread(
        panel,
        at=[f.size for f in figures],
        middle=[f.median for f in figures],
        low=[f.low for f in figures],
        high=[f.high for f in figures],
        colour=colour,
        marker=marker,
        label=label or None,
    )


if __name__ == "__main__":
    main()
