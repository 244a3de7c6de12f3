"""One file's content from the Hub to its blob: resumed, retried, checked, and only then named."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from core.download.client import Trouble
from core.download.lock import blob_lock
from core.errors import DownloadFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from core.download.client import Answer, HubClient
    from core.download.layout import RepoLayout
    from core.download.patience import Patience
    from core.download.plan import PlannedFile

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
_HASHED_AT_ONCE = 2**20
_TIMES = 2  # a content that turns out wrong is fetched anew once


class Listener(Protocol):
    """Hears how one file gets on."""

    def found(self, file: PlannedFile, have: int) -> None:
        """Hear that it starts, or starts anew, with `have` bytes on disk."""

    def received(self, file: PlannedFile, count: int) -> None:
        """Hear of `count` new bytes on disk."""

    def waiting(self, file: PlannedFile) -> None:
        """Hear that another program fetches the same content."""

    def retrying(self, file: PlannedFile, reason: str, failures: int, wait: float) -> None:
        """Hear that it goes on at its byte in `wait` seconds."""

    def fetched_anew(self, file: PlannedFile) -> None:
        """Hear that its content was wrong."""


class BlobFetch:
    """Brings one content into the cache. For one event loop; writes are small and done in it."""

    def __init__(
        self,
        file: PlannedFile,
        url: str,
        *,
        client: HubClient,
        layout: RepoLayout,
        patience: Patience,
        listener: Listener,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            file: what is to be fetched.
            url: where, at its commit.
            client: the Hub.
            layout: where the repository lies here.
            patience: how often to try.
            listener: hears how it goes.
        """
        self._file = file
        self._url = url
        self._client = client
        self._blob = layout.blob(file.etag)
        self._partial = layout.partial(file.etag)
        self._lock = layout.lock(file.etag)
        self._patience = patience
        self._listener = listener
        self._no_ranges = False
        self._given_up = False

    async def fetch(self) -> None:
        """Return when the blob is there, whole and checked.

        Raises:
            DownloadFailed: it cannot be had; what has come stays for the next call.
            NotFound: the Hub does not have it.
            OSError: the cache cannot be written.
        """
        async with blob_lock(self._lock, on_wait=lambda: self._listener.waiting(self._file)):
            if self._is_there():
                self._listener.found(self._file, self._file.size)
                return
            for attempt in range(_TIMES):
                if attempt:
                    self._listener.fetched_anew(self._file)
                await self._fill()
                if await self._seal():
                    return
                self._partial.unlink(missing_ok=True)
        raise DownloadFailed(
            f"{self._file.name} came {_TIMES} times with another content than the Hub promises.",
            hint="Nothing of it was kept. Try again later, or report it to the repository's owner.",
        )

    def _is_there(self) -> bool:
        return self._blob.is_file() and self._blob.stat().st_size == self._file.size

    async def _fill(self) -> None:
        """Bring the partial file to its full length, over as many connections as that takes."""
        failures = 0
        with self._opened() as descriptor:
            if _length(descriptor) > self._file.size:
                os.ftruncate(descriptor, 0)
            self._listener.found(self._file, _length(descriptor))
            while (have := _length(descriptor)) < self._file.size:
                try:
                    await self._receive(descriptor, have)
                except Trouble as trouble:
                    self._no_ranges = self._no_ranges or trouble.no_ranges
                    failures = 1 if _length(descriptor) > have else failures + 1
                    await self._wait(trouble, failures)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Yield the partial file, open for writing, without a buffer that a crash would lose."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._partial, flags, 0o666)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    async def _receive(self, descriptor: int, have: int) -> None:
        """Append what one answer brings.

        Raises:
            Trouble: it ended before the file did.
        """
        start = 0 if self._no_ranges else have
        async with self._client.get(self._url, start=start, file=self._file.name) as answer:
            self._check_etag(answer)
            skip = have - self._first_byte(answer.response, start)
            os.lseek(descriptor, have, os.SEEK_SET)
            async for chunk in answer.response.aiter_bytes():
                # A server without ranges sends again what is here; it is checked in the end.
                skip, new = max(skip - len(chunk), 0), chunk[skip:]
                new = new[: self._file.size - have]
                _write(descriptor, new)
                have += len(new)
                self._listener.received(self._file, len(new))
                if have == self._file.size:
                    return
        raise Trouble("the answer ended too early")

    def _check_etag(self, answer: Answer) -> None:
        # A hash of another kind, as a mirror may tell, says nothing; the content's own is checked.
        told = answer.etag or self._file.etag
        if len(told) == len(self._file.etag) and told != self._file.etag:
            raise Trouble("the Hub answers with another content than it lists")

    def _first_byte(self, response: httpx.Response, start: int) -> int:
        """Return where in the file an answer begins.

        Raises:
            Trouble: it is not about this file, or does not tell.
        """
        packed = response.headers.get("Content-Encoding", "identity") != "identity"
        if response.status_code == 200:
            length = response.headers.get("Content-Length", "")
            if not packed and length.isdigit() and int(length) != self._file.size:
                raise Trouble(f"the answer has {length} bytes and not {self._file.size}")
            return 0
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        whole = (str(self._file.size), "*")
        if packed or not match or int(match[1]) != start or match[2] not in whole:
            raise Trouble("the answer is another part than was asked for", no_ranges=True)
        return start

    async def _wait(self, trouble: Trouble, failures: int) -> None:
        if failures >= self._patience.tries:
            raise DownloadFailed(
                f"{self._file.name} could not be fetched: {trouble.reason},"
                f" {failures} times in a row.",
                hint="Check the network. What has come is kept: the same command goes on there.",
            )
        wait = self._patience.wait(failures, wish=trouble.wish)
        self._listener.retrying(self._file, trouble.reason, failures, wait)
        await asyncio.sleep(wait)

    async def _seal(self) -> bool:
        """Give the content its name if it is the right one, and return whether it is."""
        try:
            return await asyncio.to_thread(self._check_and_name)
        finally:
            self._given_up = True  # cancelled: the thread has nobody to work for

    def _check_and_name(self) -> bool:
        self._given_up = False
        digest = _hasher(self._file)
        try:
            for chunk in self._content():
                digest.update(chunk)
            if digest.hexdigest() != self._file.etag:
                return False
            self._partial.replace(self._blob)
        except FileNotFoundError:  # somebody has tidied it away, or was faster
            return self._is_there()
        return True

    def _content(self) -> Iterator[bytes]:
        with self._partial.open("rb") as file:
            while chunk := file.read(_HASHED_AT_ONCE):
                if self._given_up:
                    return
                yield chunk
            os.fsync(file.fileno())


def _length(descriptor: int) -> int:
    return os.fstat(descriptor).st_size


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it: a full disk takes a part, and refuses the rest."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _hasher(file: PlannedFile) -> hashlib._Hash:
    """Return the hash that names a file's blob, begun.

    Source: git's blob objects, `blob SIZE` and a zero byte before the content; LFS: SHA-256.
    """
    if len(file.etag) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
