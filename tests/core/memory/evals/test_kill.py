"""`kill -9` at any point of a run loses nothing, and the next run ends where this one would have.

A child process kills itself; see `child.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from core.memory.evals.oracle import OracleModel
from core.memory.evals.run import Bench
from core.memory.git import Git
from core.memory.stages.types import STAGES
from tests.core.memory.evals.child import clock

ROOT = Path(__file__).parents[4]
RUN = re.compile(rb'"run": ?"[^"]*"')
EARLY = [
    *(("started", stage) for stage in STAGES),
    *(("progress", stage) for stage in ("segment", "extract")),
    ("answer", "5"),
    ("answer", "25"),
    ("before", "commit"),
]
"""Points before anything in the vault moves."""
LATE = [
    ("before", "move_ref"),  # files are in place, and the next writer sees to them
    ("after", "move_ref"),
    ("before", "mark_synthesized"),
    ("after", "mark_synthesized"),
]


def oracle_run(bench: Bench, batch: int) -> None:
    bench.synthesize(bench.corpus.batches()[batch], lambda: OracleModel(bench.corpus), clock=clock)


def pages(bench: Bench) -> dict[str, bytes]:
    """Return the files of a vault, the ids of runs left out."""
    return {
        str(path.relative_to(bench.root)): RUN.sub(b"", path.read_bytes())
        for path in sorted(bench.root.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


def commits(bench: Bench) -> int:
    head = Git(bench.root).head()
    assert head is not None
    return len(Git(bench.root).run("rev-list", head).split())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a vault after one run."""
    folder = tmp_path_factory.mktemp("kill") / "base"
    oracle_run(Bench.create("project", folder), 0)
    return folder


@pytest.fixture(scope="module")
def undisturbed(base: Path) -> tuple[dict[str, bytes], int]:
    """Return the files and the number of commits after the second run."""
    bench = Bench("project", Path(shutil.copytree(base, base.with_name("undisturbed"))))
    before = pages(bench)
    oracle_run(bench, 1)
    after = pages(bench)
    assert after != before
    return after, commits(bench)


def kill(workdir: Path, kind: str, what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.memory.evals.child", str(workdir), kind, what],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr.decode()


def survives(
    base: Path, kind: str, what: str, undisturbed: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    bench = Bench("project", Path(shutil.copytree(base, tmp_path / "killed")))
    before = pages(bench), commits(bench)
    kill(tmp_path / "killed", kind, what)
    if (kind, what) in EARLY:
        assert (pages(bench), commits(bench)) == before
    oracle_run(bench, 1)
    assert (pages(bench), commits(bench)) == undisturbed
    oracle_run(bench, 1)
    assert (pages(bench), commits(bench)) == undisturbed


@pytest.mark.parametrize(
    ("kind", "what"), [("started", "patch"), ("before", "move_ref"), ("before", "mark_synthesized")]
)
def test_a_killed_run(
    base: Path, kind: str, what: str, undisturbed: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    survives(base, kind, what, undisturbed, tmp_path)


@pytest.mark.slow  # a minute
@pytest.mark.parametrize(("kind", "what"), [*EARLY, *LATE])
def test_a_run_killed_at_every_boundary(
    base: Path, kind: str, what: str, undisturbed: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    survives(base, kind, what, undisturbed, tmp_path)
