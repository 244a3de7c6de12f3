"""A repository's folder in the Hugging Face cache, written as huggingface_hub writes it.

    models--org--name/
    ├── blobs/<etag>                       a whole file, checked by size and hash
    ├── blobs/<etag>.mlxbun.incomplete     the first bytes of one: ours, kept between calls
    ├── snapshots/<commit>/<file>          links into blobs/
    └── refs/<revision>                    the commit that a branch or tag stood for
    .locks/models--org--name/<etag>.lock   held (flock) by whoever fetches that blob

Partial files end as huggingface_hub's own do, so that its scan lists them as incomplete files and
its `hf cache prune` removes them; it never goes on with one of ours, nor we with one of its. A
snapshot's links are made when all its blobs are there, config.json's last and the ref after it:
until then no reader takes the snapshot for a model.

Source: huggingface_hub 2.4, `file_download.py`.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.registry.cache import repo_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

PARTIAL_SUFFIX = ".mlxbun.incomplete"
# The signature is that of the Cache Directory Tagging Standard: backups leave such folders out.
_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of the Hugging Face Hub's files.\n"
_TRUE = ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True, kw_only=True)
class RepoLayout:
    """Where the parts of one repository lie."""

    hub_cache: Path
    """The Hugging Face cache."""
    repo_id: str
    """`org/name`."""

    @property
    def folder(self) -> Path:
        """The repository's folder."""
        return repo_folder(self.hub_cache, self.repo_id)

    @property
    def blobs(self) -> Path:
        """Where contents lie."""
        return self.folder / "blobs"

    def blob(self, etag: str) -> Path:
        """Return where a whole file's content lies."""
        return self.blobs / etag

    def partial(self, etag: str) -> Path:
        """Return where the first bytes of a file lie while the rest is missing."""
        return self.blobs / f"{etag}{PARTIAL_SUFFIX}"

    def lock(self, etag: str) -> Path:
        """Return the file that whoever fetches a blob has locked, huggingface_hub too."""
        return self.hub_cache / ".locks" / self.folder.name / f"{etag}.lock"

    def snapshot(self, commit: str) -> Path:
        """Return the folder of a commit's files."""
        return self.folder / "snapshots" / commit

    def pointer(self, commit: str, name: str) -> Path:
        """Return where a commit's file is found by its name."""
        return self.snapshot(commit) / name

    def prepare(self) -> None:
        """Make the folders that a scan of the cache asks for.

        Raises:
            OSError: the cache cannot be written.
        """
        for part in (self.blobs, self.folder / "snapshots", self.folder / "refs"):
            part.mkdir(parents=True, exist_ok=True)
        tag = self.hub_cache / "CACHEDIR.TAG"
        with suppress(OSError):
            if not tag.exists():
                tag.write_text(_TAG)

    def present(self, commit: str, name: str, etag: str, size: int) -> tuple[int, bool]:
        """Return how many of a file's bytes are on this disk, and whether it is whole and checked.

        What has another size than the file is no part of it.
        """
        for place in (self.pointer(commit, name), self.blob(etag)):
            if _size(place) == size:
                return size, True
        partial = _size(self.partial(etag)) or 0
        return (partial if partial <= size else 0), False

    def publish(
        self,
        commit: str,
        names: Mapping[str, str],
        *,
        revision: str,
        symlinks: bool = True,
        fresh: Collection[str] = (),
    ) -> None:
        """Make a commit's files visible, and the revision mean that commit.

        Args:
            commit: the commit.
            names: the etag of every file by its name; the blobs are there, or the file itself.
            revision: what was asked for; a commit needs no ref.
            symlinks: whether the cache has them; without, the files lie in the snapshot.
            fresh: the etags of blobs that nothing else can need: they may move there.

        Raises:
            OSError: the cache cannot be written.
        """
        last = "config.json"  # without it, a folder is no model to anybody
        left = Counter(names.values())
        for name in sorted(names, key=lambda name: (name == last, name)):
            etag, pointer = names[name], self.pointer(commit, name)
            left[etag] -= 1
            if symlinks:
                self._link(pointer, self.blob(etag))
            else:
                self._copy(pointer, self.blob(etag), move=etag in fresh and not left[etag])
        if revision != commit:
            self._write_ref(revision, commit)

    def _link(self, pointer: Path, blob: Path) -> None:
        if not blob.exists():  # written without symlinks: the content lies in the snapshot
            return
        if pointer.is_symlink() and pointer.resolve() == blob.resolve():
            return
        target = os.path.relpath(blob, pointer.parent)
        with self._put(pointer) as new:
            new.symlink_to(target)

    def _copy(self, pointer: Path, blob: Path, *, move: bool) -> None:
        """As huggingface_hub does without symlinks, but with a second name where it can be had."""
        if not blob.exists() or _size(pointer) == _size(blob):
            return
        with self._put(pointer) as new:
            if move:
                blob.replace(new)
            else:
                _clone(blob, new)

    @contextmanager
    def _put(self, place: Path) -> Iterator[Path]:
        """Yield a name to make something under, and move that to its place.

        Not a name in the repository: a scan reads everything in blobs/, refs/ and snapshots/, also
        what a crash has left there.
        """
        place.parent.mkdir(parents=True, exist_ok=True)
        new = _name_outside(self.hub_cache)
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield new
            new.replace(place)
        finally:
            new.unlink(missing_ok=True)

    def _write_ref(self, revision: str, commit: str) -> None:
        ref = self.folder / "refs" / revision
        with suppress(OSError):
            if ref.read_text(encoding="utf-8") == commit:
                return
        with self._put(ref) as new, new.open("x", encoding="utf-8") as file:
            file.write(commit)
            file.flush()
            os.fsync(file.fileno())


def has_symlinks(hub_cache: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a cache can and may hold symlinks; nothing is left there by trying.

    huggingface_hub's `HF_HUB_DISABLE_SYMLINKS` says that it may not.
    """
    if environ.get("HF_HUB_DISABLE_SYMLINKS", "").upper() in _TRUE:
        return False
    probe = _name_outside(hub_cache)
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.symlink_to("nothing")
        probe.unlink()
    except OSError as problem:
        # A full disk or one that cannot be written says nothing about symlinks.
        return problem.errno in (errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT)
    return True


def _clone(source: Path, target: Path) -> None:
    """Give a content a second name, or copy it where a disk has no second names."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _size(path: Path) -> int | None:
    """Return the bytes of a file, through links; None: there is none that can be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _name_outside(hub_cache: Path) -> Path:
    """Return an unused name where no reader of the cache looks; `core.gc.own` knows its form."""
    return hub_cache / ".locks" / f"mlxbun-{secrets.token_hex(8)}"
