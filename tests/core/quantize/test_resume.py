"""Runs that end before their end: what is listed stays the same, and the next run continues."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from core.errors import AlreadyRunning, BadModelFiles, MlxbunError, UsageProblem
from core.gc.locks import holding
from core.jobs.stop import Cancelled
from core.quantize import run
from core.quantize.place import Target, check_target
from core.quantize.recipe import make_recipe
from core.quantize.resume import key_of
from core.registry import cache
from tests.caches import add_model
from tests.core.quantize.box import Box, contents
from tests.tiny import make_model


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


def test_a_file_that_a_kill_left_half_written_is_not_published(box: Box, tmp_path: Path) -> None:
    model = box.model()
    with pytest.raises(Cancelled):
        box.quantize(model, should_stop=_After(20))
    (stage,) = (box.paths.hub_cache / ".locks").iterdir()
    (stage / "files" / ".mlxbun.json.15c588f85e2b7dbd.tmp").write_text("{")
    whole = contents(Box(tmp_path / "other").quantize(model).folder)
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


def test_another_calibration_text_is_another_run(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    mix = tmp_path / "mix.jsonl"
    recipe = make_recipe({"target_bpw": 4.5, "calibration_mix": str(mix)})
    keys = []
    for word in ("ox", "hen", "ox"):
        mix.write_text(json.dumps({"text": f"{word} " * 300}) + "\n")
        keys.append(key_of(recipe, model))
    assert keys[0] == keys[2] != keys[1]
    assert keys[0].source == keys[1].source


class _Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("first", [True, False])
def test_a_kill_between_any_two_steps_of_publishing(
    first: bool, box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = box.model()
    whole = contents(Box(tmp_path / "other").quantize(model).folder)
    if not first:
        box.quantize(model, override="*.q_proj=8")  # the next one is merged into its repository
    before = box.listed()
    rename, replace = Path.rename, Path.replace
    left = 0

    def stopping(move: Any) -> Any:
        def moved(path: Path, target: Path) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _Killed
            return move(path, target)

        return moved

    killed = 0
    for _ in range(60):
        left = 1  # every run comes one step further than the one before
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", stopping(rename))
            patch.setattr(Path, "replace", stopping(replace))
            try:
                box.quantize(model)
                break
            except _Killed:
                killed += 1
                assert box.listed() == before
    result = box.quantize(model)
    assert killed > 3
    assert contents(result.folder) == whole
    assert [commit for _, commit, _ in box.listed()] == [result.commit]


def test_sealed_files_that_were_deleted_are_made_anew(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = box.model()
    whole = contents(Box(tmp_path / "other").quantize(model).folder)

    def killed(*_: object, **__: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(cache, "publish_repository", killed)
        with pytest.raises(_Killed):
            box.quantize(model)
    (stage,) = (box.paths.hub_cache / ".locks").iterdir()
    for blob in stage.glob("models--*/blobs/*"):
        blob.unlink()
    with pytest.raises(MlxbunError, match="could not be written"):
        box.quantize(model)
    assert box.listed() == []
    assert contents(box.quantize(model).folder) == whole


def test_weights_of_another_plan_are_cleared_away(box: Box, tmp_path: Path) -> None:
    model = box.model()
    whole = contents(Box(tmp_path / "other").quantize(model).folder)
    with pytest.raises(Cancelled):
        box.quantize(model, should_stop=_After(20))
    (stage,) = (box.paths.hub_cache / ".locks").iterdir()
    files = stage / "files"
    # As a kill leaves it behind the change to the uniform model, where that has fewer files.
    shutil.copy(files / "model.safetensors", files / "model-00001-of-00002.safetensors")
    assert contents(box.quantize(model).folder) == whole


def test_a_repository_that_is_downloaded_meanwhile_is_not_touched(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = box.model()

    def downloading(target: Target, source: Path) -> None:
        assert target.repo_id is not None
        add_model(box.paths.hub_cache, target.repo_id, commit="f" * 40)
        check_target(target, source)

    monkeypatch.setattr(run, "check_target", downloading)
    with pytest.raises(UsageProblem, match="mlxbun did not make; it is not touched"):
        box.quantize(model)
    assert [commit for _, commit, _ in box.listed()] == ["f" * 40]
    (repository,) = box.paths.hub_cache.glob("models--*")
    assert os.listdir(repository / "snapshots") == ["f" * 40]  # noqa: PTH208 - names alone


def test_a_killed_run_shows_nothing_and_is_resumed(box: Box, tmp_path: Path) -> None:
    _kill_again_and_again(box, tmp_path, times=4, seed=1)


@pytest.mark.slow  # 25 runs of three seconds and more each
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_a_hundred_kills_show_nothing(seed: int, box: Box, tmp_path: Path) -> None:
    _kill_again_and_again(box, tmp_path, times=25, seed=seed)


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
