"""Runs that end before their end: what is listed stays the same, and the next run continues."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.errors import AlreadyRunning, BadModelFiles, MlxbunError
from core.gc.locks import holding
from core.jobs.stop import Cancelled
from tests.core.quantize.box import Box, contents


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path / "box")


class _After:
    """Wishes to stop after some questions."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_a_cancelled_run_continues_with_the_same_bytes(box: Box, tmp_path: Path) -> None:
    model = box.model()
    whole = contents(Box(tmp_path / "other").quantize(model).folder)
    for count in (1, 9, 30, 60):
        with pytest.raises(Cancelled):
            box.quantize(model, should_stop=_After(count))
        assert box.listed() == []
    result = box.quantize(model)
    assert contents(result.folder) == whole
    assert any(note.startswith("Resuming an interrupted run") for note in box.notes)
    assert not list((box.paths.hub_cache / ".locks").iterdir())


def test_a_tensor_that_was_torn_is_written_again(box: Box, tmp_path: Path) -> None:
    model = box.model()
    whole = contents(Box(tmp_path / "other").quantize(model).folder)
    with pytest.raises(Cancelled):
        box.quantize(model, should_stop=_After(20))
    (stage,) = (box.paths.hub_cache / ".locks").iterdir()
    weights = stage / "files" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    weights.write_bytes(data)
    with (stage / "journal").open("a") as journal:
        journal.write('["model.norm.wei')
    assert contents(box.quantize(model).folder) == whole


def test_another_recipe_or_source_starts_over(box: Box, tmp_path: Path) -> None:
    model = box.model()
    with pytest.raises(Cancelled):
        box.quantize(model, should_stop=_After(20))
    result = box.quantize(model, override="*.q_proj=8")
    assert "An interrupted run was of another recipe or source: starting over." in box.notes
    assert contents(result.folder) == contents(
        Box(tmp_path / "other").quantize(model, override="*.q_proj=8").folder
    )
    with pytest.raises(Cancelled):
        box.quantize(model, should_stop=_After(20))
    shutil.rmtree(model)
    box.model(rope_theta=5000.0)
    box.notes.clear()
    box.quantize(model)
    assert "An interrupted run was of another recipe or source: starting over." in box.notes


def test_a_source_that_changes_meanwhile_ends_the_run(box: Box) -> None:
    model = box.model()

    def touch() -> bool:
        (model / "tokenizer_config.json").write_text("{}")
        return False

    with pytest.raises(BadModelFiles, match="changed during the run"):
        box.quantize(model, should_stop=touch)
    assert box.listed() == []


def test_two_processes_do_not_make_the_same(box: Box) -> None:
    model = box.model()
    with pytest.raises(Cancelled):
        box.quantize(model, should_stop=_After(5))
    (stage,) = (box.paths.hub_cache / ".locks").iterdir()
    with holding(stage / "lock"), pytest.raises(AlreadyRunning):
        box.quantize(model)


def test_a_full_disk_ends_the_run_and_shows_nothing(box: Box, tmp_path: Path) -> None:
    model = box.model()
    before = box.listed()
    whole = contents(Box(tmp_path / "other").quantize(model).folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (10, 30_000, 70_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(MlxbunError, match="could not be written: File too large"):
                box.quantize(model)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert box.listed() == before
    assert contents(box.quantize(model).folder) == whole


def test_a_killed_run_shows_nothing_and_is_resumed(box: Box, tmp_path: Path) -> None:
    _kill_again_and_again(box, tmp_path, times=4, seed=1)


@pytest.mark.slow
def test_a_hundred_kills_show_nothing(box: Box, tmp_path: Path) -> None:
    _kill_again_and_again(box, tmp_path, times=100, seed=2)


def _kill_again_and_again(box: Box, tmp_path: Path, *, times: int, seed: int) -> None:
    """Kill runs at random points; what is listed is what was listed, or the whole result."""
    chance = random.Random(seed)
    model = box.model()
    box.quantize(model, override="*.q_proj=8")  # another snapshot of the same repository
    before = box.listed()
    other = Box(tmp_path / "other")
    other.quantize(model, override="*.q_proj=8")
    start = time.perf_counter()
    result = other.quantize(model)
    longest = 2 * (time.perf_counter() - start)
    killed = 0
    while killed < times:
        if _killed(box, model, after=chance.uniform(0, longest)):
            killed += 1
            assert box.listed() in (before, other.listed())
        else:
            assert box.listed() == other.listed()
        if box.listed() == other.listed():
            _take_back(box, before, result.commit)
    assert contents(box.quantize(model).folder) == contents(result.folder)
    assert box.listed() == other.listed()


def _killed(box: Box, model: Path, *, after: float) -> bool:
    """Start a run and kill it; return whether it had not ended before."""
    command = [sys.executable, "-m", "tests.core.quantize.child", str(box.root), str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(after)
        process.kill()
    return process.returncode == -signal.SIGKILL


def _take_back(box: Box, before: list[tuple[str, str | None, bool]], commit: str | None) -> None:
    """Bring the cache back to where the result was not there."""
    (repository,) = box.paths.hub_cache.glob("models--*")
    assert commit is not None
    (old,) = [found for _, found, _ in before]
    assert old is not None
    (repository / "refs" / "main").write_text(old)
    (repository / "refs" / "mlxbun" / commit[:12]).unlink(missing_ok=True)
    shutil.rmtree(repository / "snapshots" / commit)
    assert box.listed() == before
