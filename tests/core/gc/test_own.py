"""What mlxbun itself leaves behind, and what of its own it must not touch."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import pytest

from core.gc.locks import holding
from core.gc.plan import Kind
from core.jobs.store import JobStore
from core.machine.probe import compiler_works
from core.paths import atomic_write
from core.registry.cache import staging_folder
from tests.core.gc.box import Box, age, mishaps, of_kind


def put(path: Path, days: float, data: bytes = b"12345") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    age(path, days)
    return path


def folder(path: Path, days: float) -> Path:
    put(path / "inner" / "file", days)
    age(path / "inner", days)
    age(path, days)
    return path


def told(box: Box) -> list[tuple[str, int]]:
    return [(item.what, item.bytes) for item in of_kind(box.plan(), Kind.LEFTOVERS)]


@pytest.mark.parametrize(
    ("name", "what", "least"),
    [
        ("cache/tokenizers/" + "a" * 40 + ".json", "1 tokenizer card", 30),
        ("cache/compilers/" + "a" * 16, "1 memory of a compiler", 30),
        ("cache/.starter.lock." + "a" * 16 + ".tmp", "1 half-written file", 1),
        ("cache/blas/openblas-" + "a" * 12 + "/.libopenblas.so." + "b" * 16 + ".tmp",
         "1 half-written file", 1),
        ("home/jobs/0a1b2c3d.ndjson", "1 log of an old job", 90),
        ("home/jobs/0a1b2c3d.out", "1 output of an old job", 90),
        ("home/.config.toml." + "a" * 16 + ".tmp", "1 half-written file", 1),
        ("home/sessions/.x.jsonl." + "a" * 16 + ".tmp", "1 half-written file", 1),
    ],
)  # fmt: skip
def test_files(box: Box, name: str, what: str, least: float) -> None:
    file = put(box.hub.parent / name, least - 0.5)
    assert told(box) == []
    age(file, least + 0.5)
    assert told(box) == [(what, 5)]
    assert not mishaps(box.gc())
    assert not file.exists()
    assert file.parent.exists()


@pytest.mark.parametrize(
    ("name", "what", "least"),
    [
        ("hub/.locks/mlxbun-abc", "1 staging folder", 1),
        ("cache/starter-abc", "1 scratch folder", 1),
        ("cache/blas/openblas-" + "a" * 12, "1 prepared BLAS library", 30),
    ],
)
def test_folders(box: Box, name: str, what: str, least: float) -> None:
    path = folder(box.hub.parent / name, least - 0.5)
    assert told(box) == []
    path = folder(path, least + 0.5)
    assert told(box) == [(what, 5)]
    plan = box.plan()
    put(path / "inner" / "new", 0)
    assert mishaps(box.execute(plan)) == ["it has changed since"]
    (path / "inner" / "new").unlink()
    folder(path, least + 0.5)
    assert not mishaps(box.gc())
    assert not path.exists()


def test_what_is_no_leftover_of_ours_stays(box: Box) -> None:
    root = box.hub.parent
    names = (
        "home/config.toml",
        "home/bench.db",
        "home/bench.db.damaged-20260101",
        "home/hf-token",
        "home/jobs/jobs.db",
        "home/jobs/jobs.db.damaged-20260101",
        "home/jobs/notes.ndjson",
        "home/sessions/a.jsonl",
        "home/sessions/notes.tmp",
        "cache/downloads.db",
        "cache/library.db",
        "cache/starter.lock",
        "cache/tokenizers/notes.json",
        "cache/compilers/notes",
        "cache/blas/notes",
        "hub/.locks/other-tool",
        "hub/version.txt",
        "hub/CACHEDIR.TAG",
    )
    for name in names:
        put(root / name, 400)
    assert box.plan().items == ()


def test_trial_links_go(box: Box) -> None:
    link = box.hub / ".locks" / f"mlxbun-{secrets.token_hex(8)}"
    link.parent.mkdir(parents=True)
    link.symlink_to("nothing")
    age(link, 2)
    assert told(box) == [("1 trial link", 0)]
    box.gc()
    assert not link.is_symlink()


def test_unfinished_files_go(box: Box) -> None:
    file = put(box.hub / ".locks" / f"mlxbun-{secrets.token_hex(8)}", 2)
    assert told(box) == [("1 unfinished file", file.stat().st_size)]
    box.gc()
    assert not file.exists()


def test_a_stage_in_use_stays(box: Box) -> None:
    with staging_folder(box.hub) as stage:
        put(stage / "file", 0)
        assert told(box) == []


def test_stages_stay_while_the_starter_is_fetched(box: Box) -> None:
    stage = folder(box.hub / ".locks" / "mlxbun-abc", 3)
    folder(box.paths.cache / "starter-abc", 3)
    plan = box.plan()
    with holding(box.paths.cache / "starter.lock"):
        assert told(box) == []
        assert mishaps(box.execute(plan)) == ["the starter is being fetched"] * 2
    assert stage.exists()


def test_links_to_elsewhere_are_not_followed(box: Box, tmp_path: Path) -> None:
    outside = folder(tmp_path / "outside", 99)
    put(outside / ("a" * 40 + ".json"), 99)
    box.paths.cache.mkdir()
    for name in ("tokenizers", "blas", "starter-abc"):
        (box.paths.cache / name).symlink_to(outside)
    assert told(box) == []
    assert len(list(outside.iterdir())) == 2


def test_they_are_left_out_when_a_repository_is_named(box: Box) -> None:
    put(box.paths.cache / "tokenizers" / ("a" * 40 + ".json"), 99)
    box.pair()
    assert of_kind(box.plan("org/one"), Kind.LEFTOVERS) == []


def test_names_are_those_that_are_written(box: Box) -> None:
    """Should a module name its files in another way, this one has to follow."""
    job = JobStore(box.paths.jobs_folder).add("finetune", {})
    for path in (job.log_path, job.output_file):
        put(path, 91)
    assert told(box) == [("1 log of an old job", 5), ("1 output of an old job", 5)]
    assert not mishaps(box.gc())
    shutil.rmtree(box.paths.jobs_folder)
    with atomic_write(box.paths.home / "x"):
        (temporary,) = box.paths.home.iterdir()
        temporary.rename(box.hub.parent / "aside")
        temporary.touch()
    (box.hub.parent / "aside").rename(temporary)
    age(temporary, 2)
    assert told(box) == [("1 half-written file", 0)]
    compiler = put(box.hub.parent / "c++", 0, b"#!/bin/sh\nexit 0\n")
    compiler.chmod(0o755)
    assert compiler_works(str(compiler), cache=box.paths.cache)
    (memory,) = (box.paths.cache / "compilers").iterdir()
    age(memory, 31)
    assert ("1 memory of a compiler", 0) in told(box)
