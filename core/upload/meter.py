"""Counts what an upload reads and sends, and tells it. Called from several threads."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from core.progress import Progress, Rate, Transfer
from core.registry.files import printable
from core.upload.events import FileSent, Moved, Noted, OnEvent, Present, Retrying

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from core.upload.events import Stage
    from core.upload.gather import LocalFile
    from core.upload.plan import UploadPlan

_TELL_SECONDS = 0.2


class Meter:
    """The listener of one upload."""

    def __init__(self, plan: UploadPlan, on_event: OnEvent) -> None:
        """Begin to read.

        Args:
            plan: what will be uploaded.
            on_event: is told.
        """
        self._plan = plan
        self._tell = on_event
        self._lock = threading.Lock()
        self._files = {file.name: file for file in plan.files}
        self._stage: Stage = "reading"
        self._rate = Rate()
        self._read = dict.fromkeys(self._files, 0)
        self._done: set[str] = set()
        self._large: set[str] = set()
        self._names: dict[str, list[str]] = {}
        self._told: set[str] = set()
        self._last = 0.0
        self.sent_bytes = 0

    def start_sending(self, hashes: Mapping[str, str]) -> None:
        """Hear that everything has been read, and what the contents are called."""
        self._move(last=True)
        with self._lock:
            self._stage = "sending"
            self._rate = Rate()
            self._read = dict.fromkeys(self._files, 0)
            self._done.clear()
            for name, sha256 in hashes.items():
                self._names.setdefault(sha256, []).append(name)

    def read(self, name: str, position: int, /) -> None:
        """Hear where the reading of a file stands."""
        with self._lock:
            counts = self._stage == "reading" or name in self._large
            if not counts or name not in self._read:
                return
            new = position - self._read[name]
            self._read[name] = position
            if new > 0:
                self._rate.add(new)
            if self._stage == "sending":
                self.sent_bytes += max(new, 0)
            elif position == self._files[name].size:
                self._done.add(name)
        self._move()

    def arrived(self, file: LocalFile) -> None:
        """Hear that a file has been read to its end and taken."""
        with self._lock:
            if file.name not in self._large or file.name in self._done:
                return
            self._done.add(file.name)
        self._tell(FileSent(name=file.name, size=file.size))

    def committed(self, names: Iterator[str]) -> None:
        """Hear that files are part of a commit."""
        with self._lock:
            for name in names:
                self._done.add(name)
                self._read[name] = self._files[name].size
        self._move(last=True)

    def retrying(self, name: str, reason: str, failures: int, wait: float) -> None:
        """Hear that something is tried again."""
        self._tell(Retrying(name=name, reason=reason, failures=failures, wait=wait))

    def answered(self, path: str, content: Any) -> None:
        """Hear how the Hub wants files, or which of their contents it has."""
        key = "objects" if path.endswith("/batch") else "files"
        entries = content.get(key) if isinstance(content, dict) else None
        told = (
            [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
        )
        if key == "files":
            self._modes(told)
        else:
            self._contents(told)

    def note(self, text: str) -> None:
        """Tell something once."""
        if text not in self._told:
            self._told.add(text)
            self._tell(Noted(text=text))

    def _modes(self, entries: list[dict[str, Any]]) -> None:
        with self._lock:
            large = {str(one.get("path")) for one in entries if one.get("uploadMode") == "lfs"}
            self._large |= large & self._files.keys()
        for one in entries:
            if one.get("shouldIgnore") is True:
                name = printable(str(one.get("path")), 120)
                self.note(f"{name} is left out: the repository's .gitignore says so.")

    def _contents(self, entries: list[dict[str, Any]]) -> None:
        have = [str(one.get("oid")) for one in entries if not one.get("actions")]
        with self._lock:
            names = {name for oid in have for name in self._names.get(oid, ())} - self._done
            self._done |= names
            for name in names:
                self._read[name] = self._files[name].size
            size = sum(self._files[name].size for name in names)
        if names:
            self._tell(Present(files=len(names), size=size))

    def _move(self, *, last: bool = False) -> None:
        """Tell where everything stands, unless that was told a moment ago."""
        with self._lock:
            now = time.monotonic()
            if not last and now - self._last < _TELL_SECONDS:
                return
            self._last = now
            event = Moved(stage=self._stage, transfer=self._transfer())
        self._tell(event)

    def _transfer(self) -> Transfer:
        moving = (
            Progress(task=name, done=done, total=self._files[name].size)
            for name, done in self._read.items()
            if done and name not in self._done
        )
        return Transfer(
            task=str(self._plan.request.target),
            moving=tuple(moving),
            done=sum(self._read.values()),
            total=self._plan.total_bytes,
            rate=self._rate.value(),
            files_done=len(self._done),
            files_total=len(self._files),
        )
