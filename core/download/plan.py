"""What one download will fetch, worked out before the first byte. Pure beside a few `stat`s."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.download.names import RepoName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.download.layout import RepoLayout
    from core.download.listing import Listing


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """One file of the selection."""

    name: str
    """Its path in the repository."""
    size: int
    """Bytes."""
    etag: str
    """SHA-256 (64 digits) or git's SHA-1 (40), which names its blob."""
    present: int
    """Bytes that are on this disk already, perhaps as the beginning of a partial file."""
    is_here: bool
    """Whether it is whole and has been checked: nothing is left to do."""


@dataclass(frozen=True, kw_only=True)
class DownloadPlan:
    """A selection of files at one commit. Files with equal contents count once in bytes."""

    name: RepoName
    """What was asked for."""
    commit: str
    """What its revision stands for now."""
    folder: Path
    """The snapshot's folder, there or to be made."""
    files: tuple[PlannedFile, ...]
    """In the order of fetching."""

    @property
    def contents(self) -> tuple[PlannedFile, ...]:
        """One file of each content: one that is not here, if there is such a one."""
        found: dict[str, PlannedFile] = {}
        for file in self.files:
            if file.etag not in found or not file.is_here:
                found[file.etag] = file
        return tuple(found.values())

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.contents)

    @property
    def present_bytes(self) -> int:
        """Bytes of them that are on this disk."""
        return sum(file.present for file in self.contents)

    @property
    def missing_bytes(self) -> int:
        """Bytes that have to be fetched."""
        return self.total_bytes - self.present_bytes


def make_plan(
    name: RepoName, listing: Listing, chosen: Sequence[str], layout: RepoLayout
) -> DownloadPlan:
    """Compare a selection with what is on this disk.

    Args:
        name: what was asked for.
        listing: what the Hub holds.
        chosen: names in it, in the order of fetching.
        layout: where the repository lies here.
    """
    by_name = {file.name: file for file in listing.files}
    files = []
    for file in (by_name[name] for name in chosen):
        present, is_here = layout.present(listing.commit, file.name, file.etag, file.size)
        files.append(
            PlannedFile(
                name=file.name, size=file.size, etag=file.etag, present=present, is_here=is_here
            )
        )
    return DownloadPlan(
        name=name,
        commit=listing.commit,
        folder=layout.snapshot(listing.commit),
        files=tuple(files),
    )
