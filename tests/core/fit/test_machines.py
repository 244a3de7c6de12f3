"""The list of Macs: its figures, and what names mean."""

from __future__ import annotations

import tomllib
from datetime import date
from importlib.resources import files
from pathlib import Path

import pytest

from core.errors import UsageProblem
from core.fit.machines import (
    data_checked_on,
    find_skus,
    load_skus,
    speed_of,
    wired_limit_bytes,
    working_set_bytes,
)
from core.machine.probe import Machine
from core.units import GIB

CHIPS = {f"M{n}{kind}" for n in range(1, 6) for kind in ("", " Pro", " Max")}
CHIPS |= {"M1 Ultra", "M2 Ultra", "M3 Ultra", "M5 Ultra"}


def mac(**changes: object) -> Machine:
    given: dict[str, object] = {
        "system": "Darwin",
        "architecture": "arm64",
        "processor": "Apple M4 Max",
        "cores": 16,
        "memory_bytes": 64 * GIB,
        "backend": "metal",
        "compiler": None,
        "python": "3.12.0",
    }
    return Machine(**(given | changes))  # type: ignore[arg-type]


def test_the_line_up_is_there() -> None:
    assert {sku.chip for sku in load_skus()} >= CHIPS
    names = [sku.name for sku in load_skus()]
    assert len(names) == len(set(names))


def test_figures_are_within_what_macs_have() -> None:
    for sku in load_skus():
        assert 8 <= sku.memory_bytes // GIB <= 512
        assert 60e9 < sku.bandwidth < 1.3e12
        assert 2e12 < sku.fp16 < 200e12
        assert 7 <= sku.gpu_cores <= 80


def test_larger_chips_of_a_generation_are_no_slower() -> None:
    for generation in range(1, 6):
        ladder = [f"M{generation}{kind}" for kind in ("", " Pro", " Max", " Ultra")]
        best = [
            max(sku.bandwidth for sku in load_skus() if sku.chip == chip)
            for chip in ladder
            if any(sku.chip == chip for sku in load_skus())
        ]
        assert best == sorted(best)


def test_every_entry_names_its_sources() -> None:
    data = tomllib.loads(files("core.fit").joinpath("machines.toml").read_text(encoding="utf-8"))
    assert all(len(text) > 20 for text in data["sources"].values())
    for entry in data["chip"]:
        assert entry["source"]
        assert set(entry["source"]) <= set(data["sources"])
        assert set(entry.get("unconfirmed", ())) <= {"bandwidth", "fp16"}
    assert date.fromisoformat(data_checked_on()) >= date(2026, 11, 29)


def test_the_file_lies_in_a_package_that_is_shipped() -> None:
    root = Path(__file__).resolve().parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "core" in wheel["packages"]
    assert (root / "core" / "fit" / "machines.toml").is_file()


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("M4 Max", 4),
        ("m4 max", 4),
        ("M4 Max 64", 1),
        ("apple m4 max 64GB", 1),
        ("M4Max 64 GB", 1),
        ("M3 Max 36 GB (30-core GPU)", 1),
        ("M4 Pro 24", 2),
        ("m1", 2),
        ("M1 8", 1),
        ("M4 Max 40-core", 3),
        ("M3 Max 30-core 36 GB", 1),
    ],
)
def test_names_as_people_write_them(name: str, count: int) -> None:
    assert len(find_skus(name)) == count


def test_a_full_name_means_one() -> None:
    for sku in load_skus():
        assert find_skus(sku.name) == [sku]


def test_an_unknown_mac_is_refused_with_near_misses() -> None:
    with pytest.raises(UsageProblem, match="no Mac 'M4 Max 65'") as caught:
        find_skus("M4 Max 65")
    assert caught.value.hint is not None
    assert "M4 Max 64" in caught.value.hint
    with pytest.raises(UsageProblem, match=r"no Mac '.{57}\.\.\.'"):
        find_skus("x" * 10_000)


def test_the_working_set_is_what_metal_printed() -> None:
    # llama.cpp on 16 GiB and on 64 GiB, up to macOS 15: MB there are 10^6 bytes.
    assert working_set_bytes(16 * GIB) == pytest.approx(11453.25e6, rel=1e-3)
    assert working_set_bytes(64 * GIB) == pytest.approx(51539.61e6, rel=1e-3)


def test_this_machine_is_found_by_its_chip() -> None:
    speed = speed_of(mac())
    assert (speed.bandwidth, speed.fp16) == (546e9, find_skus("M4 Max 64")[0].fp16)
    slower = speed_of(mac(processor="Apple M3 Max", memory_bytes=36 * GIB))
    assert slower.bandwidth == 300e9


@pytest.mark.parametrize(
    "changes", [{"processor": "AMD EPYC", "backend": "cpu"}, {"processor": "Apple M99"}]
)
def test_nothing_is_made_up_of_other_machines(changes: dict[str, object]) -> None:
    speed = speed_of(mac(**changes))
    assert (speed.bandwidth, speed.fp16) == (None, None)


def test_there_is_no_wired_limit_elsewhere() -> None:
    limit = wired_limit_bytes()
    assert limit is None or limit > 0
