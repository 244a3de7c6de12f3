"""What a download tells while it runs. Called in its own thread; must return fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from core.download.plan import DownloadPlan
    from core.progress import Transfer


@dataclass(frozen=True, kw_only=True)
class Planned:
    """It is known what will be fetched, and there is room for it."""

    plan: DownloadPlan
    """Files, sizes, and what is here."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Bytes have come; told a few times a second."""

    transfer: Transfer
    """Where everything stands."""


@dataclass(frozen=True, kw_only=True)
class FileDone:
    """A file is whole and has been checked."""

    name: str
    """Its path in the repository."""
    size: int
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class Retrying:
    """A transfer broke off and will go on at its byte, or a question is asked again."""

    name: str
    """The file; of a question, the repository."""
    reason: str
    """Why, as a clause."""
    failures: int
    """In a row that brought no byte; 1 after the first."""
    wait: float
    """Seconds until the next try."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Another program fetches the same file into the same cache."""

    name: str
    """The file."""


@dataclass(frozen=True, kw_only=True)
class FetchedAnew:
    """A file came to its end with the wrong content; it is thrown away and fetched once more."""

    name: str
    """The file."""


@dataclass(frozen=True, kw_only=True)
class Unlisted:
    """The list of downloads cannot be written: no server shows this one, and none refuses it."""

    reason: str
    """Why, in a sentence."""


Event = Planned | Moved | FileDone | Retrying | Waiting | FetchedAnew | Unlisted


class OnEvent(Protocol):
    """Called with every event."""

    def __call__(self, event: Event, /) -> None:
        """Take one event."""


def ignore_event(_event: Event, /) -> None:
    """Drop every event."""
