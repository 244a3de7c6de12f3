"""Pictures: written whole, in the right format, with what they should say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from core.bench.plot import draw_run, write_picture
from core.errors import MlxbunError
from core.figures import Figure, FigureKind
from tests.core.figures.runs import make_run

MEDIANS: dict[FigureKind, dict[int, float]] = {
    "prefill": {128: 300.0, 2048: 1150.0},
    "decode": {1: 20.0, 8: 90.0},
    "ttft_cold": {128: 0.4, 2048: 12.0},
    "ttft_warm": {128: 0.05, 2048: 0.2},
}
SEVERAL = tuple(
    Figure.of(kind, size, (value, value * 1.1, value * 0.9))
    for kind, sizes in MEDIANS.items()
    for size, value in sizes.items()
)


def words_in(path: Path) -> str:
    return " ".join(text.strip() for text in ElementTree.parse(path).getroot().itertext())


def test_a_picture_names_model_machine_day_and_figures(tmp_path: Path) -> None:
    target = tmp_path / "new" / "bench.svg"
    write_picture(draw_run(make_run(figures=SEVERAL)), target)
    said = words_in(target)
    for word in ("acme/Fox-1B", "Fast Chip 9, 2 cores", "2026-11-29", "quartiles of 3"):
        assert word in said
    for word in ("Prefill, tokens/s", "Decode, tokens/s", "Time to first token", "each row"):
        assert word in said
    for word in ("1,150", "2,048", "10 s", "same prompt again"):
        assert word in said


@pytest.mark.parametrize("name", ["bench.png", "BENCH.PNG"])
def test_a_png_is_a_png(tmp_path: Path, name: str) -> None:
    write_picture(draw_run(make_run()), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert data.startswith(b"\x89PNG")
    assert data.rstrip(b"\0").endswith(b"IEND\xaeB`\x82")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("kinds", [("prefill",), ("decode", "ttft_cold"), ("ttft_warm",)])
def test_a_run_with_some_figures_has_their_panels(kinds: tuple[str, ...]) -> None:
    figures = tuple(figure for figure in SEVERAL if figure.kind in kinds)
    picture = draw_run(make_run(figures=figures))
    assert len(picture.axes) == len(kinds)


def test_a_picture_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MlxbunError, match="cannot be written"):
        write_picture(draw_run(make_run()), tmp_path / "file" / "bench.png")
