"""Exports of ChatGPT and Claude: `conversations.json`, bare or in the ZIP that one downloads.

Nothing is unpacked onto the disk. Members are found by their last name only, streamed, and stopped
at a limit that does not trust what the ZIP says of itself. Newer exports of ChatGPT hold several
files, `conversations-000.json` and so on.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any

from core.memory.sources.chatgpt import is_chatgpt, read_chatgpt
from core.memory.sources.claude import is_claude, read_claude
from core.memory.sources.json_array import read_array
from core.memory.sources.raw import MOST_BYTES
from core.registry.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from core.memory.sources.raw import RawConversation, ReadLog

MOST_TEXT = 16 * 2**30
"""Bytes of JSON that are read of one export at most."""
_MOST_MEMBERS = 200_000
_MOST_DIRECTORY = 64 * 2**20  # bytes of a ZIP's table of contents
_MOST_RATIO = 200  # of text to compressed bytes: text has 3 to 20, a bomb has 1,000
_FREE = 16 * 2**20  # bytes that may have any ratio
_PIECE = 2**20
_NAME = re.compile(r"(?:.*[/\\])?conversations(?:[-_]\d{1,6})?\.json", re.IGNORECASE | re.DOTALL)
_END = b"PK\x05\x06"
_MAGIC = (b"PK\x03\x04", _END)


def is_export_name(name: str) -> bool:
    """Return whether a file in an export holds conversations, by its name or path."""
    return _NAME.fullmatch(name) is not None


def read_export(path: Path, log: ReadLog) -> Iterator[RawConversation]:
    """Yield the conversations of an export.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as (file, size):
        is_zip = file.read(4) in _MAGIC
        file.seek(0)
        if not is_zip:
            yield from _conversations(_bounded(file, log, packed=None), log)
            return
        try:
            yield from _read_zip(file, size, log)
        # What zipfile raises for damage of all kinds; RuntimeError: encrypted.
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError):
            log.skip("the rest of a ZIP that is damaged or cut short")
        except RuntimeError:
            log.skip("a ZIP that is encrypted")


def _read_zip(file: IO[bytes], size: int, log: ReadLog) -> Iterator[RawConversation]:
    if not _has_small_directory(file, size):
        log.skip("a ZIP with too many members")
        return
    found = False
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.filename.lower().endswith(".zip"):
                log.skip("a ZIP within a ZIP")
            if not is_export_name(member.filename):
                continue
            found = True
            if member.flag_bits & 0x1:
                log.skip("a member of a ZIP that is encrypted")
            elif member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Only these two can be unpacked in pieces of a known size.
                log.skip("a member of a ZIP that is compressed in an unusual way")
            else:
                with archive.open(member) as stream:
                    pieces = _bounded(stream, log, packed=member.compress_size)
                    yield from _conversations(pieces, log)
    if not found:
        log.skip("a ZIP without conversations.json")


def _has_small_directory(file: IO[bytes], size: int) -> bool:
    """Return whether a ZIP's table of contents is small enough to be read at once.

    Source: PKWARE's APPNOTE, 4.3.16; the fields of ZIP64 say 0xFFFF or 0xFFFFFFFF here.
    """
    tail = min(size, 2**16 + 22)
    file.seek(size - tail)
    data = file.read(tail)
    at = data.rfind(_END)
    file.seek(0)
    if at < 0 or at + 22 > len(data):
        return True  # zipfile says what is wrong with it
    members = int.from_bytes(data[at + 10 : at + 12], "little")
    directory = int.from_bytes(data[at + 12 : at + 16], "little")
    if members == 0xFFFF or directory == 0xFFFFFFFF:
        locator = data.rfind(b"PK\x06\x06", 0, at)
        if locator < 0 or locator + 48 > at:
            return size <= _MOST_DIRECTORY
        members = int.from_bytes(data[locator + 32 : locator + 40], "little")
        directory = int.from_bytes(data[locator + 40 : locator + 48], "little")
    return members <= _MOST_MEMBERS and directory <= _MOST_DIRECTORY


def _bounded(stream: IO[bytes], log: ReadLog, *, packed: int | None) -> Iterator[bytes]:
    """Yield a stream in pieces, up to the limits.

    Args:
        stream: of plain bytes.
        log: counts a stream that is stopped.
        packed: bytes that the stream is unpacked from; None: it is not packed.
    """
    most = MOST_TEXT
    if packed is not None:
        most = min(most, max(_FREE, packed * _MOST_RATIO))
    read = 0
    while piece := stream.read(_PIECE):
        read += len(piece)
        if read > most:
            log.skip("the rest of a file that unpacks to more than can be")
            return
        yield piece


def _conversations(pieces: Iterable[bytes], log: ReadLog) -> Iterator[RawConversation]:
    for values in read_array(pieces, log, most=MOST_BYTES):
        if isinstance(values.get("conversations"), list):  # the array in an object
            inner = [each for each in values["conversations"] if isinstance(each, dict)]
        else:
            inner = [values]
        for each in inner:
            if conversation := _conversation(each, log):
                yield conversation


def _conversation(values: dict[str, Any], log: ReadLog) -> RawConversation | None:
    if is_chatgpt(values):
        found = read_chatgpt(values)
    elif is_claude(values):
        found = read_claude(values)
    else:
        log.skip("an object that is not a conversation of ChatGPT or Claude")
        return None
    if found is None:
        log.skip("a conversation in which nothing was said")
    return found
