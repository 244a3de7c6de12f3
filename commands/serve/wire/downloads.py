"""The last downloads, for `GET /downloads`, and the start of one, for `POST /api/hub/download`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.api import clean

if TYPE_CHECKING:
    from core.download.ledger import DownloadRecord

_STATES: dict[str, Literal["active", "done", "error"]] = {
    "running": "active",
    "done": "done",
    "failed": "error",
    "cancelled": "error",
}
_CANCELLED = "It was ended before it was done. The next download goes on where it stopped."


class DownloadRow(Struct, kw_only=True):
    """One download of any mlxbun on this machine."""

    repo_id: str
    state: Literal["active", "done", "error"]
    current_file: str | None
    received_bytes: Annotated[int, Meta(description="what is there, of earlier downloads too")]
    total_bytes: Annotated[int, Meta(description="0 until the Hub has told")]
    files_done: int
    files_total: int
    bytes_per_sec: Annotated[float, Meta(description="over the last five seconds")]
    started_at: Annotated[int, Meta(description="Unix seconds")]
    finished_at: Annotated[int | None, Meta(description="Unix seconds")]
    error: Annotated[str | UnsetType, Meta(description="of one in the state `error`")] = UNSET


class DownloadList(Struct, kw_only=True):
    """The body of `GET /downloads`: five at most, in the order in which they were started."""

    downloads: list[DownloadRow]


class DownloadStart(Struct, kw_only=True):
    """What `POST /api/hub/download` takes."""

    repo: Annotated[str, Meta(description="org/name, or org/name@revision")]


class DownloadStarted(Struct, kw_only=True):
    """A download runs."""

    ok: Literal[True] = True
    repo: str
    started: Literal[True] = True


def download_row(record: DownloadRecord) -> DownloadRow:
    """Return the row of a download."""
    state = _STATES[record.state]
    return DownloadRow(
        repo_id=clean(record.repo_id),
        state=state,
        current_file=None if record.current_file is None else clean(record.current_file),
        received_bytes=record.done_bytes,
        total_bytes=record.total_bytes,
        files_done=record.files_done,
        files_total=record.files_total,
        bytes_per_sec=record.bytes_per_second,
        started_at=int(record.started_at),
        finished_at=None if record.finished_at is None else int(record.finished_at),
        error=clean(record.error or _CANCELLED) if state == "error" else UNSET,
    )
