"""The benchmark store: what goes in comes out, and nothing that happens to the file loses a run."""

from __future__ import annotations

import multiprocessing
import resource
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import MlxbunError, StoreCorrupt
from core.figures import FigureStore, machine_key
from core.figures.migrations import MIGRATIONS
from tests.core.figures.runs import MACHINE, SETTINGS, make_evaluation, make_run


@pytest.fixture
def store(tmp_path: Path) -> FigureStore:
    return FigureStore(tmp_path / "home" / "bench.db")


def test_a_run_comes_back_as_it_went_in(store: FigureStore) -> None:
    number = store.add(make_run())
    (run,) = store.runs()
    assert run == replace(make_run(), run_id=number)


def test_the_newest_is_first_and_a_limit_holds(store: FigureStore) -> None:
    days = ("2026-11-02", "2026-11-03", "2026-11-01")
    for day in days:
        store.add(make_run(measured_at=f"{day}T00:00:00+00:00"))
    assert [run.measured_at[8:10] for run in store.runs()] == ["03", "02", "01"]
    assert [run.measured_at[8:10] for run in store.runs(limit=2)] == ["03", "02"]


def test_a_model_is_found_whole_or_by_a_part(store: FigureStore) -> None:
    for name in ("acme/Fox-1", "acme/Fox-1.5", "acme/Owl%"):
        store.add(make_run(model_id=name))
    assert [run.model_id for run in store.runs("acme/Fox-1")] == ["acme/Fox-1"]
    assert {run.model_id for run in store.runs("fox")} == {"acme/Fox-1", "acme/Fox-1.5"}
    assert [run.model_id for run in store.runs("%")] == ["acme/Owl%"]
    assert store.runs("bear") == []


def test_the_latest_is_of_this_model_and_machine_and_complete(store: FigureStore) -> None:
    here = machine_key(MACHINE)
    old = store.add(make_run(revision="old", measured_at="2026-11-01T00:00:00+00:00"))
    new = store.add(make_run(revision="new", measured_at="2026-11-02T00:00:00+00:00"))
    store.add(make_run(complete=False, measured_at="2026-11-03T00:00:00+00:00"))
    store.add(make_run(machine=replace(MACHINE, cores=4)))

    def latest(revision: str | None, machine: str = here) -> int | None:
        run = store.latest(model_id="acme/Fox-1B", revision=revision, machine=machine)
        return run.run_id if run else None

    assert latest(None) == new
    assert latest("old") == old
    assert latest("abc") is None
    assert latest(None, machine="elsewhere") is None
    assert store.latest(model_id="Fox", revision=None, machine=here) is None


def test_reading_where_there_is_nothing_makes_nothing(store: FigureStore, tmp_path: Path) -> None:
    assert store.runs() == []
    assert store.latest(model_id="m", revision=None, machine="x") is None
    assert list(tmp_path.iterdir()) == []


def test_a_path_may_hold_anything(tmp_path: Path) -> None:
    store = FigureStore(tmp_path / "a?mode=ro#b %41" / "bench.db")
    store.add(make_run())
    assert len(store.runs()) == 1
    assert (tmp_path / "a?mode=ro#b %41" / "bench.db").exists()


def _add_many(path: Path, name: str, count: int) -> None:
    for _ in range(count):
        FigureStore(path).add(make_run(model_id=name))


def test_processes_that_write_together_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    path.write_bytes(b"this was never a database " * 100)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add_many, args=(path, f"m{n}", 10)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    names = [run.model_id for run in FigureStore(path).runs()]
    assert {name: names.count(name) for name in names} == {"m0": 10, "m1": 10, "m2": 10}
    assert len(list(tmp_path.glob("bench.db.damaged-*"))) == 1


@pytest.mark.parametrize("start", [0, 100, 5000])
def test_a_damaged_file_is_left_alone_by_reads_and_moved_aside_by_a_write(
    tmp_path: Path, start: int
) -> None:
    path = tmp_path / "bench.db"
    for _ in range(30):
        FigureStore(path).add(make_run())
    data = bytearray(path.read_bytes())
    data[start:] = b"\xa5" * (len(data) - start)
    path.write_bytes(data)
    notes: list[str] = []
    store = FigureStore(path, on_note=notes.append)
    assert store.runs() == []
    assert "damaged" in notes[0]
    assert path.read_bytes() == data
    store.add(make_run(model_id="after"))
    assert [run.model_id for run in store.runs()] == ["after"]
    (aside,) = tmp_path.glob("bench.db.damaged-*")
    assert aside.read_bytes() == data
    assert str(aside) in notes[1]


def test_samples_that_are_no_json_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    notes: list[str] = []
    store = FigureStore(path, on_note=notes.append)
    store.add(make_run())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE figure SET samples = '[1'")
    assert store.runs() == []
    assert len(notes) == 1


def test_a_newer_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    store = FigureStore(path)
    store.add(make_run())
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    for use in (store.runs, lambda: store.add(make_run())):
        with pytest.raises(StoreCorrupt, match=f"version {len(MIGRATIONS) + 1}"):
            use()
    assert [path.name for path in tmp_path.iterdir()] == ["bench.db"]


def test_a_run_that_cannot_be_kept_whole_is_not_kept(store: FigureStore) -> None:
    store.add(make_run())
    twice = make_run().figures * 2
    with pytest.raises(MlxbunError, match="cannot be written"):
        store.add(make_run(figures=twice))
    assert len(store.runs()) == 1


def _add_with_no_room(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 4096,) * 2)
    with pytest.raises(MlxbunError, match=r"bench\.db cannot be written: ") as refusal:
        _add_many(path, "x" * 3000, 10)
    raise SystemExit(7 if "\n" not in refusal.value.message else 1)


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    FigureStore(path).add(make_run())
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_add_with_no_room, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == 7
    assert "acme/Fox-1B" in [run.model_id for run in FigureStore(path).runs()]


def test_a_folder_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bench.db").mkdir()
    store = FigureStore(tmp_path / "bench.db")
    with pytest.raises(MlxbunError, match="cannot be written"):
        store.add(make_run())
    with pytest.raises(MlxbunError, match="cannot be read"):
        store.runs()
    (tmp_path / "file").write_text("")
    with pytest.raises(MlxbunError, match="cannot be written"):
        FigureStore(tmp_path / "file" / "bench.db").add(make_run())


def test_settings_come_back(store: FigureStore) -> None:
    store.add(make_run(settings=replace(SETTINGS, prefill="throughput", tokens=7)))
    assert store.runs()[0].settings.prefill == "throughput"
    assert store.runs()[0].settings.tokens == 7


def test_evaluations_come_back_beside_runs_and_of_one_model(store: FigureStore) -> None:
    store.add(make_run())
    days = ("2026-11-02", "2026-11-03", "2026-11-01")
    numbers = [store.add_evaluation(make_evaluation(day, name="a/Fox-4bit")) for day in days]
    store.add_evaluation(make_evaluation("2026-11-04", name="a/Owl-4bit"))
    found = store.evaluations("fox")
    assert [each.measured_at[8:10] for each in found] == ["03", "02", "01"]
    assert found[1] == make_evaluation(days[0], name="a/Fox-4bit", number=numbers[0])
    assert [each.model_id for each in store.evaluations(limit=1)] == ["a/Owl-4bit"]
    assert len(store.runs()) == 1


def test_a_file_from_before_evaluations_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "bench.db"
    with sqlite3.connect(path) as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    store = FigureStore(path)
    store.add_evaluation(make_evaluation("2026-11-02", name="a/Fox-4bit"))
    assert len(store.evaluations()) == 1
    assert store.runs() == []
