"""Figures: their statistics. Machines and models: their names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.figures import Figure, machine_key, model_revision
from tests.core.figures.runs import MACHINE, make_run


def test_a_figure_tells_median_quartiles_and_extremes() -> None:
    figure = Figure.of("prefill", 512, [5.0, 1.0, 2.0, 4.0, 3.0])
    assert (figure.median, figure.low, figure.high) == (3.0, 2.0, 4.0)
    assert (figure.least, figure.most) == (1.0, 5.0)
    assert figure.samples == (5.0, 1.0, 2.0, 4.0, 3.0)
    assert figure.unit == "tokens/s"


def test_one_sample_is_its_own_spread() -> None:
    figure = Figure.of("ttft_cold", 128, [0.5])
    assert figure.low == figure.median == figure.high == figure.least == figure.most == 0.5
    assert figure.unit == "s"


def test_no_sample_makes_no_figure() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        Figure.of("decode", 1, [])


def test_a_row_gets_its_share_of_decode_alone() -> None:
    assert Figure.of("decode", 4, [60.0]).per_row == 15.0
    assert Figure.of("prefill", 4, [60.0]).per_row == 60.0


def test_a_run_finds_its_figures() -> None:
    run = make_run()
    found = run.figure("decode", 4)
    assert found is not None
    assert found.median == 60.0
    assert run.figure("decode", 2) is None


def test_a_machine_is_named_by_what_decides_its_speed() -> None:
    assert machine_key(MACHINE) == "Fast Chip 9, 2 cores, 8 GiB, cpu"
    assert machine_key(replace(MACHINE, memory_bytes=8 * 2**30)) == machine_key(MACHINE)
    assert machine_key(replace(MACHINE, cores=4)) != machine_key(MACHINE)


def test_a_snapshot_has_its_commit_as_revision(tmp_path: Path) -> None:
    assert model_revision(tmp_path / "snapshots" / "0123abc") == "0123abc"


def test_a_plain_folder_has_a_fingerprint_of_config_and_sizes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"1234")
    first = model_revision(tmp_path)
    (tmp_path / "README.md").write_text("changed")
    assert model_revision(tmp_path) == first
    weights.write_bytes(b"12345")
    second = model_revision(tmp_path)
    (tmp_path / "config.json").write_text('{"a": 1}')
    third = model_revision(tmp_path)
    assert len({first, second, third}) == 3
    assert first.startswith("files-")
