"""Reading a file that goes out: hashed before, and watched while it is sent.

A content is promised to the Hub by its SHA-256 before its first byte is sent. What is sent is
hashed once more on its way, and the last piece of a content that is another one by then is held
back: so nothing is ever stored under a wrong name.
"""

from __future__ import annotations

import hashlib
import io
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from core.errors import UploadFailed
from core.registry.files import open_regular, printable
from core.upload.gather import LocalFile, stamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.upload.ending import Ending

_PIECE = 2**20
_READERS = 4


def changed(name: str) -> UploadFailed:
    """Return what to say when a file changed between two looks at it."""
    return UploadFailed(
        f"{printable(name, 120)} changed while it was uploaded, so nothing was committed.",
        hint="Wait until nothing writes into the folder any more, and give the same command again:"
        " what has been sent is not sent again.",
    )


def unread(name: str, problem: OSError) -> UploadFailed:
    """Return what to say when a file cannot be read any more."""
    return UploadFailed(
        f"{printable(name, 120)} cannot be read: {problem.strerror}.",
        hint="Repair it, or leave it out with --exclude.",
    )


class OnRead(Protocol):
    """Hears where the reading of a file stands."""

    def __call__(self, name: str, position: int, /) -> None:
        """Hear that so many bytes of a file have been read; fewer than before: from there anew."""


def hash_files(files: Sequence[LocalFile], *, ending: Ending, on_read: OnRead) -> dict[str, str]:
    """Return the SHA-256 of every file, by name, as 64 digits.

    Nothing is remembered from one call to the next: a hash is never older than the call.

    Raises:
        UploadFailed: one cannot be read, or changes meanwhile.
        Cancelled: the end has come.
    """

    def one(file: LocalFile) -> str:
        return _hash(file, ending, on_read)

    with ThreadPoolExecutor(_READERS, thread_name_prefix="hash") as pool:
        return {file.name: found for file, found in zip(files, pool.map(one, files), strict=True)}


def _hash(file: LocalFile, ending: Ending, on_read: OnRead) -> str:
    digest = hashlib.sha256()
    try:
        with open_regular(file.path) as (opened, _):
            _check_stamp(opened.fileno(), file, ending)
            while piece := opened.read(_PIECE):
                ending.check()
                digest.update(piece)
                on_read(file.name, opened.tell())
            _check_stamp(opened.fileno(), file, ending)
    except OSError as problem:
        raise ending.fail(unread(file.name, problem)) from None
    return digest.hexdigest()


def _check_stamp(descriptor: int, file: LocalFile, ending: Ending) -> None:
    if stamp_of(os.fstat(descriptor)) != file.stamp:
        raise ending.fail(changed(file.name))


class WatchedFile(io.RawIOBase):
    """A file on its way out. For one thread at a time; pieces of it may be read again.

    Attributes:
        name: its path in the repository.
    """

    def __init__(self, file: LocalFile, sha256: str, *, ending: Ending, on_read: OnRead) -> None:
        """Open it.

        Args:
            file: which.
            sha256: what has been promised, as 64 digits.
            ending: ends the reading.
            on_read: hears of every piece.

        Raises:
            UploadFailed: it is another file by now, or cannot be opened.
        """
        super().__init__()
        self.name = file.name
        self._watched = file
        self._promised = sha256
        self._ending = ending
        self._on_read = on_read
        self._digest = hashlib.sha256()
        self._digested = 0
        self._file = self._open()
        _check_stamp(self._file.fileno(), file, ending)

    def readable(self) -> bool:
        """Tell that it is for reading."""
        return True

    def seekable(self) -> bool:
        """Tell that one can go back in it."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read the next piece.

        Raises:
            Cancelled: the end has come.
            UploadFailed: it cannot be read, or what was read is not what was promised; this piece
                is not handed out.
        """
        self._ending.check()
        start = self._file.tell()
        try:
            count = self._file.readinto(buffer) or 0
        except OSError as problem:
            raise self._ending.fail(unread(self.name, problem)) from None
        if start == 0:
            self._digest, self._digested = hashlib.sha256(), 0
        if start == self._digested:
            self._digest.update(buffer[:count])
            self._digested += count
        self._check(start + count, at_end=count == 0)
        self._on_read(self.name, start + count)
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _open(self) -> io.FileIO:
        try:
            return io.FileIO(self._watched.path, "rb")
        except FileNotFoundError:
            raise self._ending.fail(changed(self.name)) from None
        except OSError as problem:
            raise self._ending.fail(unread(self.name, problem)) from None

    def _check(self, position: int, *, at_end: bool) -> None:
        size = self._watched.size
        if position > size or (at_end and position < size):
            raise self._ending.fail(changed(self.name))
        if position == size:
            _check_stamp(self._file.fileno(), self._watched, self._ending)
            if self._digested == size and self._digest.hexdigest() != self._promised:
                raise self._ending.fail(changed(self.name))
