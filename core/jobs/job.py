"""One job as its row tells it: plain records, no files."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from core.servers import process_born

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Kind = Literal["quantize", "finetune", "dataset"]
Status = Literal["queued", "running", "done", "failed", "zombie"]

KINDS: tuple[Kind, ...] = get_args(Kind)
OVER: tuple[Status, ...] = ("done", "failed", "zombie")

CANCELLED = "cancelled"
"""The error of a job that was asked to end."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that a job depends on."""

    machine: str
    """The name of the machine that it runs on."""
    pid: int
    """Its number there."""
    born: str
    """When it started, as `core.servers.process_born` tells it; tells it from a later one."""

    @classmethod
    def of(cls, pid: int, born: Callable[[int], str | None] = process_born) -> Owner:
        """Return a process of this machine; one that is gone was born at no time."""
        return cls(machine=platform.node(), pid=pid, born=born(pid) or "")

    @classmethod
    def this(cls, born: Callable[[int], str | None] = process_born) -> Owner:
        """Return this process."""
        return cls.of(os.getpid(), born)

    @property
    def is_here(self) -> bool:
        """Whether it is a process of this machine."""
        return self.machine == platform.node()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job, waiting, running or over."""

    id: str
    """Eight hexadecimal digits."""
    kind: Kind
    """What sort of work it is."""
    status: Status
    """`queued` until its process has what it needs; `zombie`: that process ended without a word."""
    config_json: str
    """What was asked for, a JSON object."""
    progress: float = 0.0
    """Of its work, 0 to 1."""
    message: str | None = None
    """What it does now, or waits for, in a few words."""
    log_path: Path
    """Its events, one JSON object a line."""
    output_path: str | None = None
    """What it made, once it is done."""
    error: str | None = None
    """Why it failed, for people; `cancelled`: somebody asked it to end."""
    started_at: str
    """When it began to run; while it is queued, when it was asked for. UTC, ISO 8601."""
    ended_at: str | None = None
    """When it was over, alike."""
    accelerator: bool = True
    """It takes its turn with others that use the accelerator."""
    owner: Owner
    """Its process; until that has come up, the one that asked for it."""
    claimed: bool = False
    """The owner is the job's own process, and ends in order on SIGTERM."""
    seen_at: float
    """Unix seconds of its last sign of life."""
    output_read: int = 0
    """Bytes of its process's raw output that are in the log."""
    cancel_asked: bool = False
    """Somebody has asked it to end."""

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return self.status in OVER

    @property
    def config(self) -> dict[str, Any]:
        """What was asked for."""
        try:
            config = json.loads(self.config_json)
        except (ValueError, TypeError):  # a row that was damaged is shown as far as it goes
            return {}
        return config if isinstance(config, dict) else {}

    @property
    def output_file(self) -> Path:
        """What its process writes to stdout and stderr, until that is in the log."""
        return self.log_path.with_suffix(".out")
