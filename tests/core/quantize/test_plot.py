"""Pictures of a sweep."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from core.errors import MlxbunError
from core.quantize.allocate import Allocation, Sizes, allocate
from core.quantize.form import Form
from core.quantize.plot import make_charts, write_plot
from core.quantize.sweep_store import Sweep
from tests.core.quantize.test_allocate import make_sizes, make_sweep

_FORMS = tuple(Form(bits=bits, group_size=64) for bits in (2, 3, 4, 8))


def _example() -> tuple[Sweep, Sizes, Allocation]:
    paths = ["model.embed_tokens"]
    paths += [f"model.layers.{at}.mlp.{name}" for at in range(30) for name in ("up", "down")]
    curves = {
        path: {form: (1 + at % 7) * 4.0**-form.bits for form in _FORMS}
        for at, path in enumerate(paths)
    }
    sweep, sizes = make_sweep(curves), make_sizes(dict.fromkeys(paths, 640))
    return sweep, sizes, allocate(sweep, sizes, 4.0)


def _words(file: Path) -> str:
    return " ".join(element.text or "" for element in ElementTree.parse(file).iter())


def test_a_plot_shows_bits_sensitivity_and_the_frontier(tmp_path: Path) -> None:
    write_plot(tmp_path / "new" / "sweep.svg", *_example())
    words = _words(tmp_path / "new" / "sweep.svg")
    for expected in (
        "Bits per layer, 3.99 bits per weight in all",
        "Sensitivity: KL divergence",
        "Size against the sum",
        "embed",
        "2 bits",
        "8 bits",
        "mixed",
        "uniform",
        "chosen",
    ):
        assert expected in words
    assert "nan" not in (tmp_path / "new" / "sweep.svg").read_text()


def test_everything_lies_within_the_picture(tmp_path: Path) -> None:
    write_plot(tmp_path / "sweep.svg", *_example())
    drawn = (tmp_path / "sweep.svg").read_text()
    width, height = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)"', drawn)[0])
    places = re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', drawn)
    assert len(places) > 150
    assert all(0 < float(x) < width and 0 < float(y) < height for x, y in places)


def test_the_charts_hold_the_numbers_of_the_sweep() -> None:
    sweep, sizes, chosen = _example()
    bits, sensitivity, frontier = make_charts(sweep, sizes, chosen)
    mean, _ = bits.series
    assert len(mean.points) == 31
    assert mean.points[0] == pytest.approx((0, chosen.forms["model.embed_tokens"].bits))
    two = sensitivity.series[0]
    first = [sweep.curve(f"model.layers.0.mlp.{name}")[_FORMS[0]] for name in ("up", "down")]
    assert two.points[1] == pytest.approx((1, sum(first)))
    mixed, uniform, here = frontier.series
    assert [size for size, _ in uniform.points] == [2.5, 3.5, 4.5, 8.5]
    assert here.points == ((chosen.bits_per_weight, chosen.kl),)
    assert mixed.points[0][0] == 2.5


def test_a_png_is_a_png(tmp_path: Path) -> None:
    write_plot(tmp_path / "SWEEP.PNG", *_example())
    assert (tmp_path / "SWEEP.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_without_entries_shows_the_bits(tmp_path: Path) -> None:
    _, sizes, chosen = _example()
    write_plot(tmp_path / "sweep.svg", make_sweep({}), sizes, chosen)
    words = _words(tmp_path / "sweep.svg")
    assert "Bits per layer" in words
    assert "Sensitivity" not in words


def test_a_plot_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MlxbunError, match="cannot be written"):
        write_plot(tmp_path / "file" / "sweep.svg", *_example())
