"""Rows out of Parquet files, by pyarrow, which is imported when there is such a file."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from core.errors import BackendMissing, UsageProblem
from core.registry.files import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_AT_ONCE = 256  # rows that are in memory


def parquet_rows(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as a JSONL file would tell them: what is null is left out.

    Raises:
        BackendMissing: pyarrow is not installed.
        OSError: the file cannot be read.
        UsageProblem: it is no whole Parquet file.
    """
    if find_spec("pyarrow") is None:
        raise BackendMissing(
            f"{file.name} needs pyarrow, which comes with the extra mlxbun[parquet].",
            hint="Run `pip install 'mlxbun[parquet]'`.",
        )
    with file.open("rb") as source:  # raises as all files do
        yield from _rows(source, file)


def _rows(source: Any, file: Path) -> Iterator[dict[str, Any]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        # One thread: others may be computing, and rows of text are read in no time.
        for batch in ParquetFile(source).iter_batches(batch_size=_AT_ONCE, use_threads=False):
            yield from (_without_nulls(row) for row in batch.to_pylist())
    # pyarrow raises bare OSErrors and ValueErrors where a file is cut short.
    except (ArrowException, OSError, ValueError) as problem:
        reason = printable(" ".join(str(problem).split()), 200).rstrip(".")
        raise UsageProblem(f"{file} cannot be read: {reason}.") from problem


def _without_nulls(value: Any) -> Any:
    """Return a value without nulls: all rows of a column have all its fields."""
    if isinstance(value, dict):
        return {name: _without_nulls(v) for name, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
