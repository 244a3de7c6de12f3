"""A run that can be interrupted: its staging folder, its lock, and the journal of what is written.

    mlxbun-quantize-<hash of the target>/
    ├── lock            held while a process works in it
    ├── journal         the run's key, then a line for each tensor: its name and its SHA-256
    ├── files/          the model under way
    └── sealed.json     once everything was read back: the names that files get in the cache

A tensor counts as written when its bytes in the file have the hash in the journal. Imports no
arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import AlreadyRunning
from core.evals.documents import digest_of
from core.gc.locks import holding
from core.paths import remove_temporary
from core.quantize.calibration import MIXES, check_calibration
from core.quantize.recipe import TABLE
from core.registry.weights import WEIGHTS, read_header

if TYPE_CHECKING:
    from pathlib import Path

    from core.quantize.place import Target
    from core.quantize.recipe import Recipe

# What does not change the result.
_NOT_IN_KEY = ("model_id", "output", "strict", "allow_requantize", "min_agreement", "max_kl", "fit")


@dataclass(frozen=True, kw_only=True)
class Key:
    """Which run it is."""

    commit: str
    """A hash of the recipe and the source, 40 digits: what the snapshot is called."""
    source: str
    """A hash of the source alone."""


def key_of(recipe: Recipe, folder: Path) -> Key:
    """Return the key of a run.

    Files in the Hugging Face cache are known by their hashes; others by their sizes, their times
    and, if they hold weights, their headers.

    Raises:
        BadModelFiles: a file of weights cannot be read.
        MlxbunError: as `check_calibration`, where the text is a user's file.
        OSError: the folder cannot be read.
    """
    marks = [_mark(path, folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    source = hashlib.sha1(json.dumps(marks).encode()).hexdigest()
    chosen = {name: v for name, v in TABLE.as_json(recipe).items() if name not in _NOT_IN_KEY}
    if recipe.calibrates and recipe.calibration_mix not in MIXES:  # a file may change its text
        chosen["calibration"] = digest_of(check_calibration(recipe.calibration_mix))
    text = json.dumps({"recipe": chosen, "source": source}, sort_keys=True)
    return Key(commit=hashlib.sha1(text.encode()).hexdigest(), source=source)


class Stage:
    """The staging folder of a run. From `open_stage`.

    Attributes:
        files: the folder of the model under way.
        resumes: whether something is there of an interrupted run.
        restarted: whether something was there of a run of another recipe or source; it is gone.
    """

    def __init__(self, folder: Path, key: Key) -> None:
        """Take a folder whose lock is held."""
        self._folder = folder
        self.files = folder / "files"
        self._journal = folder / "journal"
        first, self._written = _read_journal(self._journal)
        self.resumes = first == key.commit
        self.restarted = first is not None and not self.resumes
        if not self.resumes:
            self._written = {}
            self._begin(key)
        self.files.mkdir(exist_ok=True)
        remove_temporary(self.files)  # a kill within a write would publish them with the model
        self._lines = self._journal.open("a", encoding="utf-8")

    @property
    def folder(self) -> Path:
        """The whole folder."""
        return self._folder

    @property
    def is_sealed(self) -> bool:
        """Whether the model is complete, and on its way to its place."""
        return (self._folder / "sealed.json").exists()

    @property
    def written(self) -> Mapping[str, str]:
        """The tensors in the journal with their hashes."""
        return self._written

    def note(self, name: str, digest: str) -> None:
        """Write down that a tensor is in its file.

        Raises:
            OSError: the disk is full.
        """
        self._lines.write(json.dumps([name, digest]) + "\n")
        self._lines.flush()
        self._written[name] = digest

    def close(self) -> None:
        """Let go of the journal."""
        self._lines.close()

    def remove(self) -> None:
        """Delete the folder: the run is over."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _begin(self, key: Key) -> None:
        # First: a sealed stage whose files are gone would be published without them.
        (self._folder / "sealed.json").unlink(missing_ok=True)
        shutil.rmtree(self.files, ignore_errors=True)
        for left in self._folder.glob("models--*"):
            shutil.rmtree(left, ignore_errors=True)
        with self._journal.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"key": key.commit}) + "\n")
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def open_stage(target: Target, key: Key) -> Iterator[Stage]:
    """Hold the staging folder of a target while the block runs; it stays afterwards.

    Raises:
        AlreadyRunning: another process makes the same.
        OSError: it cannot be written.
    """
    target.stage.mkdir(parents=True, exist_ok=True)
    with holding(target.stage / "lock", is_ours=True) as held:
        if not held:
            raise AlreadyRunning(f"Another process is making {target.name}.")
        stage = Stage(target.stage, key)
        try:
            yield stage
        finally:
            stage.close()


def _mark(path: Path, folder: Path) -> list[Any]:
    name = path.relative_to(folder).as_posix()
    if path.is_symlink() and path.resolve().parent.name == "blobs":
        return [name, path.resolve().name]
    status = path.stat()
    header = read_header(path) if path.match(WEIGHTS) and path.parent == folder else {}
    return [name, status.st_size, status.st_mtime_ns, header]


def _read_journal(path: Path) -> tuple[str | None, dict[str, str]]:
    """Return a journal's key and what was written; its last line may be torn."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None, {}
    written: dict[str, str] = {}
    try:
        first = json.loads(lines[0])["key"]
        for line in lines[1:-1]:
            name, digest = json.loads(line)
            written[name] = digest
    except (ValueError, KeyError, TypeError):
        return (first, written) if written else (None, {})
    return first, written
