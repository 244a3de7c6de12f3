"""What a synthesis reports while it runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.memory.stages.types import Stage


@dataclass(frozen=True, kw_only=True)
class StageStarted:
    """A stage begins."""

    stage: Stage
    """Which."""
    message: str
    """What it works on: `12 conversations`."""


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """A stage has done a part of its work."""

    stage: Stage
    """Which."""
    done: int
    """Items done."""
    total: int
    """Items in all."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something worth knowing."""

    message: str
    """One sentence."""


@dataclass(frozen=True, kw_only=True)
class SynthesisSummary:
    """The result of a run: its return value, and its last event."""

    run: str
    """Id of the run, as the commit names it; empty for a dry run."""
    commit: str | None
    """The commit; None: nothing has changed, or a dry run."""
    branch: str | None
    """The branch of a run that waits for review; None: it went into the vault."""
    model: str
    """Name of the model; empty for a dry run."""
    conversations: int
    """Conversations that were new or had changed."""
    tokens: int
    """Tokens of these conversations, estimated for a dry run."""
    seconds: float
    """How long it took, or would take (dry run)."""
    facts: int
    """Facts that went into articles."""
    created: tuple[str, ...]
    """Names of new articles."""
    changed: tuple[str, ...]
    """Names of changed articles."""
    refused: int
    """Proposals of the model that were refused (see `Talk/`)."""
    complete: bool
    """Whether all stages ran over all conversations; False: budget or limit ended it early."""
    note: str
    """All that in one sentence."""


SynthesisEvent = StageStarted | StageProgress | Note | SynthesisSummary
