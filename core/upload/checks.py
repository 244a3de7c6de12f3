"""What can be found wrong with files for free, before the first byte of them goes anywhere.

Reads names, sizes, headers of safetensors, and the two ends of data files.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from core.errors import BadModelFiles
from core.registry.files import is_lfs_pointer, open_regular, printable, read_json
from core.registry.weights import BrokenWeightsError, parse_header
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.upload.gather import LocalFile

# Source: the Hub's page on storage limits: "500GB is the hard limit for a single file size", "the
# maximum number of files per folder cannot exceed 10k".
LARGEST_FILE = 500 * 10**9  # bytes
MOST_IN_FOLDER = 10_000

_LONGEST_LINE = 2**20  # bytes of a JSON line that are looked at
_PARQUET = b"PAR1"  # at both ends; Apache Parquet's format description
_OBJECTS = ("config.json", "adapter_config.json", "generation_config.json")
_LFS = "Run `git lfs pull` in its folder first."
_DATA = (".jsonl", ".csv", ".parquet")


def check_files(files: Sequence[LocalFile]) -> None:
    """Check that files can be uploaded, and are whole as far as that can be told for free.

    Raises:
        BadModelFiles: one cannot be, or is not.
    """
    for file in files:
        _check_name(file.name)
    _check_twins([file.name for file in files])
    _check_folders([file.name for file in files])
    for file in files:
        _check_size(file)
        _check_content(file)


def _check_name(name: str) -> None:
    parts = name.split("/")
    if "\\" in name or not name.isprintable() or any(part != part.strip() for part in parts):
        _refuse(
            f"The name of {_shown(name)} cannot be used everywhere",
            hint="Rename it: backslashes, control characters and blanks at the ends do not travel.",
        )


def _check_twins(names: Sequence[str]) -> None:
    """Refuse names that are one on a disk that knows no case, or spells letters in another way."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name).casefold()
        if (other := seen.setdefault(folded, name)) != name:
            _refuse(
                f"{_shown(other)} and {_shown(name)} differ in case or spelling of letters only",
                hint="On macOS and Windows one would replace the other: rename one, or --exclude"
                " it.",
            )


def _check_folders(names: Sequence[str]) -> None:
    held = Counter(name.rpartition("/")[0] for name in names)
    folder, count = held.most_common(1)[0]
    if count > MOST_IN_FOLDER:
        _refuse(
            f"The folder {_shown(folder or '.')} holds {count} files, and the Hub takes"
            f" {MOST_IN_FOLDER}",
            hint="Put them into sub-folders, or into larger files.",
        )


def _check_size(file: LocalFile) -> None:
    if file.size > LARGEST_FILE:
        _refuse(
            f"{_shown(file.name)} has {format_bytes(file.size)}, and the Hub takes"
            f" {format_bytes(LARGEST_FILE)} a file",
            hint="Split it into shards.",
        )


def _check_content(file: LocalFile) -> None:
    try:
        if problem := _problem(file.path, file.name.lower()):
            hint = _LFS if is_lfs_pointer(file.path) else "Make or fetch it again."
            _refuse(f"{_shown(file.name)} is broken: {problem}", hint=hint)
    except OSError as problem:
        _refuse(
            f"{_shown(file.name)} cannot be read: {problem.strerror}",
            hint="Make it readable for you, or leave it out with --exclude.",
        )


def _problem(path: Path, name: str) -> str | None:
    """Return what is wrong with a file, as a clause, or None.

    Raises:
        OSError: it cannot be read.
    """
    if not os.access(path, os.R_OK):
        raise PermissionError(13, os.strerror(13))
    if name.endswith(".safetensors"):
        return _safetensors_problem(path)
    if name.endswith(_DATA):
        return _data_problem(path, name)
    if name in _OBJECTS and read_json(path) is None:
        return "it is not a JSON object"
    return None


def _safetensors_problem(path: Path) -> str | None:
    try:
        parse_header(path)
    except BrokenWeightsError as problem:
        return str(problem)
    return None


def _data_problem(path: Path, name: str) -> str | None:
    with open_regular(path) as (file, size):
        if size == 0:
            return "it is empty"
        first = file.readline(_LONGEST_LINE)
        file.seek(max(size - _LONGEST_LINE, 0))
        end = file.read(_LONGEST_LINE)
    if name.endswith(".parquet"):
        whole = first.startswith(_PARQUET) and end.endswith(_PARQUET) and size >= 12
        return None if whole else "it is no whole Parquet file"
    if not name.endswith(".jsonl"):
        return None
    if not _is_json(first):
        return "its first line is not JSON"
    _, whole_line, last = end.rstrip().rpartition(b"\n")
    seen = whole_line or size <= _LONGEST_LINE
    cut = seen and not _is_json(last)
    return "its last line is not JSON: it may be cut short" if cut else None


def _is_json(line: bytes) -> bool:
    """Return whether a line is JSON; one that is longer than what was read counts as such."""
    if len(line) >= _LONGEST_LINE:
        return True
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _shown(name: str) -> str:
    return printable(name, 120)


def _refuse(message: str, *, hint: str) -> NoReturn:
    raise BadModelFiles(f"{message}.", hint=hint)
