"""Sweeps in our cache: kept, damaged, and told apart."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from core.quantize.form import Form
from core.quantize.sweep_store import (
    Entry,
    Fact,
    Sweep,
    SweepKey,
    SweepStore,
)

_KEY = SweepKey(weights="abc", mix="def")
_THREE, _FOUR = Form(bits=3, group_size=64), Form(bits=4, group_size=64)
_LINE = (
    '{"path": "c", "bits": 4, "group_size": 64, "mode": "affine", '
    '"noise": 0.5, "kl": 1, "error": 0}'
)


def _filled(store: SweepStore) -> None:
    record, _ = store.open(_KEY)
    record.set_base(0.0, 512)
    record.add(("a", _THREE), Fact(noise=0.1, kl=0.02, error=0.001))
    record.add(("a", _FOUR), Fact(noise=0.02))
    record.add(("b", _THREE), Fact(noise=0.1, kl=0.5))


def test_facts_are_read_back(tmp_path: Path) -> None:
    store = SweepStore.in_cache(tmp_path)
    _filled(store)
    record, notes = store.open(_KEY)
    assert notes == []
    assert (record.base_kl, record.tokens) == (0.0, 512)
    assert record.facts == {
        ("a", _THREE): Fact(noise=0.1, kl=0.02, error=0.001),
        ("a", _FOUR): Fact(noise=0.02),
        ("b", _THREE): Fact(noise=0.1, kl=0.5),
    }
    assert store.place(_KEY).parent == tmp_path / "sweeps"


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    store = SweepStore(tmp_path)
    _filled(store)
    place = store.place(_KEY)
    place.write_bytes(place.read_bytes()[:-9])
    record, notes = store.open(_KEY)
    assert ("b", _THREE) not in record.facts
    assert len(record.facts) == 2
    assert "damaged" in notes[0]
    record.add(("b", _THREE), Fact(noise=0.1, kl=0.5))
    record, notes = store.open(_KEY)
    assert (len(record.facts), notes) == (3, [])


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "null",
        _LINE.replace('"bits": 4', '"bits": 7'),
        _LINE.replace("0.5", "NaN"),
        _LINE.replace(', "kl": 1', ""),
        "[" * 100_000,
        "\ufffd",
    ],
)
def test_a_damaged_line_is_dropped_with_a_note(tmp_path: Path, line: str) -> None:
    store = SweepStore(tmp_path)
    _filled(store)
    lines = store.place(_KEY).read_text().split("\n")
    lines.insert(2, line)
    store.place(_KEY).write_text("\n".join(lines))
    record, notes = store.open(_KEY)
    assert (len(record.facts), len(notes)) == (3, 1)
    assert store.open(_KEY)[1] == []


@pytest.mark.parametrize("content", [b"", b"{}\n", b"\xff\xfe\n", b"[1]\n{}\n"])
def test_a_file_of_something_else_is_begun_again(tmp_path: Path, content: bytes) -> None:
    store = SweepStore(tmp_path)
    store.place(_KEY).write_bytes(content)
    record, notes = store.open(_KEY)
    assert (record.facts, len(notes)) == ({}, 1)
    assert store.open(_KEY)[1] == []


def test_every_part_of_a_key_counts() -> None:
    others = [
        replace(_KEY, weights="x"),
        replace(_KEY, mix="x"),
        replace(_KEY, reference=_FOUR),
        replace(_KEY, reference=_THREE),
        replace(_KEY, prepared="rotated by seed 42"),
        replace(_KEY, method=2),
    ]
    assert len({key.digest for key in (_KEY, *others)}) == 7
    assert len(_KEY.digest) == 40


def test_a_sweep_survives_json() -> None:
    entry = Entry(path="a", form=_THREE, kl=0.25, error=None, measured=False, noise=0.5)
    sweep = Sweep(key=replace(_KEY, reference=_FOUR), tokens=9, base_kl=0.5, entries=(entry,))
    assert Sweep.from_json(json.loads(json.dumps(sweep.as_json()))) == sweep
    assert sweep.curve("a") == {_THREE: 0.25}
    assert sweep.curve("b") == {}


@pytest.mark.parametrize(
    ("where", "value"), [("tokens", None), ("base_kl", math.nan), ("entries", [1]), ("key", "x")]
)
def test_what_is_not_a_sweep_is_refused(where: str, value: object) -> None:
    sweep = Sweep(key=_KEY, tokens=9, base_kl=0, entries=())
    with pytest.raises(ValueError, match="not"):
        Sweep.from_json(sweep.as_json() | {where: value})
