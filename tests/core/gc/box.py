"""A cache for tests of gc: built file by file, aged, planned and tidied in one line each."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.gc.execute import Result, execute
from core.gc.plan import Item, Kind, Plan, make_plan
from core.gc.survey import survey_cache
from core.gc.wishes import Wishes
from core.paths import Paths

DAY = 86_400.0
OLD, MAIN = "0" * 40, "f" * 40


@dataclass(frozen=True, kw_only=True)
class Box:
    """Three folders and what can be done with them."""

    paths: Paths

    @classmethod
    def at(cls, folder: Path) -> Box:
        return cls(
            paths=Paths(home=folder / "home", cache=folder / "cache", hub_cache=folder / "hub")
        )

    @property
    def hub(self) -> Path:
        return self.paths.hub_cache

    def repo(self, name: str = "models--org--one") -> Path:
        return self.hub / name

    def add(
        self,
        commit: str,
        files: Mapping[str, bytes],
        *,
        repo: str = "models--org--one",
        refs: Iterable[str] = (),
        links: bool = True,
        days: float = 40,
    ) -> Path:
        """Add a snapshot as huggingface_hub writes it, and return its folder.

        Args:
            commit: its name.
            files: contents by name.
            repo: the name of the repository's folder.
            refs: what stands for it.
            links: whether its files are links; else they lie in it.
            days: how long ago all of it was written.
        """
        folder = self.repo(repo) / "snapshots" / commit
        for part in (self.repo(repo) / "blobs", folder):
            part.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            blob = self.blob(data, repo=repo) if links else place
            if not blob.exists():
                blob.write_bytes(data)
                age(blob, days)
            if links:
                place.symlink_to(os.path.relpath(blob, place.parent))
        for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            age(each, days)
        for ref in refs:
            self.ref(ref, commit, repo=repo)
        return folder

    def blob(self, data: bytes, *, repo: str = "models--org--one") -> Path:
        return self.repo(repo) / "blobs" / hashlib.sha256(data).hexdigest()

    def ref(self, name: str, commit: str, *, repo: str = "models--org--one") -> Path:
        place = self.repo(repo) / "refs" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(commit)
        return place

    def pair(self, repo: str = "models--org--one") -> Path:
        """Add a superseded snapshot and the one that supersedes it; return the former."""
        old = self.add(OLD, {"config.json": b"{}", "w": b"old" * 100}, repo=repo)
        self.add(MAIN, {"config.json": b"{}", "w": b"new" * 100}, repo=repo, refs=["main"], days=9)
        return old

    def plan(
        self,
        repository: str | None = None,
        *,
        older_than: float | None = None,
        keep: int = 0,
        unique: bool = False,
        now: float | None = None,
        folders: tuple[str, ...] = (),
    ) -> Plan:
        wishes = Wishes(repository=repository, older_than=older_than, keep=keep, unique=unique)
        cache = survey_cache(self.paths, folders)
        return make_plan(cache, wishes, now=time.time() if now is None else now)

    def execute(self, plan: Plan, *, folders: tuple[str, ...] = ()) -> list[Result]:
        return list(execute(plan, paths=self.paths, model_folders=folders))

    def gc(self, **wishes: object) -> list[Result]:
        return self.execute(self.plan(**wishes))  # type: ignore[arg-type]

    def tree(self) -> dict[str, str]:
        """Return everything below the three folders with a word about what it is."""
        root = self.hub.parent
        found: dict[str, str] = {}
        for path in sorted(root.rglob("*")):
            name = os.fsencode(path.relative_to(root)).decode("utf-8", "replace")
            if path.is_symlink():
                found[name] = f"-> {path.readlink()}"
            elif path.is_file():
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[name] = "folder" if path.is_dir() else "other"
        return found


def age(path: Path, days: float) -> None:
    """Set back when a path was read and written; that of a link itself."""
    then = time.time() - days * DAY
    os.utime(path, (then, then), follow_symlinks=False)


def of_kind(plan: Plan, kind: Kind) -> list[Item]:
    return [item for item in plan.items if item.kind is kind]


def commits(plan: Plan) -> list[str]:
    """Return the snapshots that go."""
    return [item.snapshot.commit for item in plan.items if item.snapshot]


def reasons(plan: Plan) -> list[str]:
    return [kept.reason for kept in plan.kept]


def mishaps(results: Iterable[Result]) -> list[str]:
    """Return why things are still there."""
    return [mishap.reason for each in results for mishap in (*each.skipped, *each.failed)]
