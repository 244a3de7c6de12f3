"""Counts what a download brings, and tells it. For one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.download.events import FetchedAnew, FileDone, Moved, OnEvent, Retrying, Waiting
from core.progress import Progress, Rate, Transfer

if TYPE_CHECKING:
    from core.download.plan import DownloadPlan, PlannedFile


class Meter:
    """The listener of all files of one download."""

    def __init__(self, plan: DownloadPlan, on_event: OnEvent) -> None:
        """Start from what is on disk.

        Args:
            plan: what will be fetched.
            on_event: is told.
        """
        self._plan = plan
        self._tell = on_event
        self._rate = Rate()
        self._have = {file.etag: file.present for file in plan.contents}
        self._here = {file.etag for file in plan.contents if file.is_here}
        self._moving: dict[str, PlannedFile] = {}
        self.received_bytes = 0

    def transfer(self) -> Transfer:
        """Return where everything stands."""
        moving = tuple(
            Progress(task=file.name, done=self._have[file.etag], total=file.size)
            for file in self._moving.values()
        )
        return Transfer(
            task=str(self._plan.name),
            moving=moving,
            done=sum(self._have.values()),
            total=self._plan.total_bytes,
            rate=self._rate.value(),
            files_done=sum(file.etag in self._here for file in self._plan.files),
            files_total=len(self._plan.files),
        )

    def tick(self) -> None:
        """Tell where everything stands."""
        self._tell(Moved(transfer=self.transfer()))

    def found(self, file: PlannedFile, have: int) -> None:
        """Hear what is on disk of a file that starts, or starts anew."""
        self._moving[file.etag] = file
        self._have[file.etag] = have

    def received(self, file: PlannedFile, count: int) -> None:
        """Hear of new bytes."""
        self._have[file.etag] += count
        self._rate.add(count)
        self.received_bytes += count

    def finished(self, file: PlannedFile) -> None:
        """Hear that a content is whole and checked."""
        self._moving.pop(file.etag, None)
        self._here.add(file.etag)
        for same in self._plan.files:
            if same.etag == file.etag:
                self._tell(FileDone(name=same.name, size=same.size))

    def waiting(self, file: PlannedFile) -> None:
        """Hear that another program fetches the same content."""
        self._tell(Waiting(name=file.name))

    def retrying(self, file: PlannedFile, reason: str, failures: int, wait: float) -> None:
        """Hear that a transfer broke off."""
        self._tell(Retrying(name=file.name, reason=reason, failures=failures, wait=wait))

    def fetched_anew(self, file: PlannedFile) -> None:
        """Hear that a content was wrong."""
        self._tell(FetchedAnew(name=file.name))
