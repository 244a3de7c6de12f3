"""What an upload tells while it runs. Called in its own threads; must return fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from core.progress import Transfer
    from core.upload.plan import UploadPlan

Stage = Literal["reading", "sending"]
"""First everything is read to know its hashes, then what the Hub lacks is sent."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """It is known what will be uploaded."""

    plan: UploadPlan
    """Files, sizes, the card."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """A repository or a branch was made."""

    what: Literal["repository", "branch"]
    """Which of the two."""
    url: str
    """Where a person sees it."""
    private: bool
    """Whether the repository is private."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Bytes were read or sent; told a few times a second."""

    stage: Stage
    """Which of the two."""
    transfer: Transfer
    """Where everything stands."""


@dataclass(frozen=True, kw_only=True)
class Present:
    """The Hub has told which large files it has already."""

    files: int
    """How many it has."""
    size: int
    """Their bytes."""


@dataclass(frozen=True, kw_only=True)
class FileSent:
    """A large file has arrived."""

    name: str
    """Its path in the repository."""
    size: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Retrying:
    """Something broke off and will be tried again."""

    name: str
    """The file, or `the Hub` for a question."""
    reason: str
    """Why, as a clause."""
    failures: int
    """In a row; 1 after the first."""
    wait: float
    """Seconds until the next try."""


@dataclass(frozen=True, kw_only=True)
class Noted:
    """Something that a person may want to know."""

    text: str
    """A sentence."""


Event = Planned | Made | Moved | Present | FileSent | Retrying | Noted


class OnEvent(Protocol):
    """Called with every event."""

    def __call__(self, event: Event, /) -> None:
        """Take one event."""


def ignore_event(_event: Event, /) -> None:
    """Drop every event."""
