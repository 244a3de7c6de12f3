"""One upload from its plan to a commit, in a thread of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event as Flag
from threading import Lock
from typing import TYPE_CHECKING

from core.download.client import checked_endpoint
from core.download.hub import endpoint_of
from core.download.patience import Patience
from core.download.work import Work, wait_for
from core.errors import MlxbunError, UploadFailed
from core.hf_token import find_token
from core.offline import offline_switch
from core.paths import atomic_write
from core.upload.answers import Asked, no_token
from core.upload.card import README, owner_of, updated
from core.upload.carrier import Carrier, Stale
from core.upload.ending import Cancelled, Ending
from core.upload.events import Made, Noted, OnEvent, Planned, ignore_event
from core.upload.gather import changed_files
from core.upload.hub import Commit, Hub, Standing
from core.upload.meter import Meter
from core.upload.plan import UploadPlan
from core.upload.reading import changed, hash_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.hf_token import HubToken
    from core.paths import Paths
    from core.upload.events import Event
    from core.upload.gather import LocalFile

_OFFERS = 5  # how often the same files are offered, when what was agreed does not hold
_COMMIT_FILES = 100  # the Hub's own advice
_COMMIT_BYTES = 100 * 2**20  # of files that may have to travel inside the commit
_SMALL = 10 * 2**20  # bytes; larger files never do
_KEPT = "What has been sent is kept: the same command sends the rest."


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How an upload gets on with the network."""

    patience: Patience = field(default_factory=lambda: Patience(stall_seconds=60.0))
    """How often to try, and how long to wait for a connection that takes no bytes."""
    answer_seconds: float = 300.0
    """How long to wait for an answer; the Hub checks every file of a commit before it gives one."""
    connections: int = 4
    """Files that are on their way at once."""


@dataclass(frozen=True, kw_only=True)
class UploadResult:
    """An upload that has come to its end."""

    plan: UploadPlan
    """What it was."""
    url: str
    """Where a person finds the repository."""
    commit: str
    """The commit that holds everything."""
    commit_url: str
    """Where a person sees it."""
    changed: bool
    """Whether anything was committed; False: the branch held everything already."""
    sent_bytes: int
    """Bytes of large files that went over the network, repeated ones included."""


def check_way(paths: Paths, environ: Mapping[str, str]) -> HubToken:
    """Return the token, after checking that nothing on this machine prevents an upload.

    To be called before files are looked at: reading a large data set takes minutes.

    Raises:
        UploadFailed: there is no token, or the environment says to stay offline.
        UsageProblem: HF_ENDPOINT is not a URL, or HF_TOKEN is not a token.
        StoreCorrupt: a token file cannot be read.
    """
    if (name := offline_switch(environ)) is not None:
        raise UploadFailed(
            f"{name} is set, so nothing is uploaded.",
            hint=f"Upload without {name}, or use --dry-run, which needs no network.",
        )
    endpoint = checked_endpoint(endpoint_of(environ))
    return _found(find_token(paths, environ), endpoint, paths)


def upload(
    plan: UploadPlan,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent = ignore_event,
    pace: Pace | None = None,
) -> UploadResult:
    """Upload what was planned and return when it is committed. Ctrl-C ends it within moments.

    See `start_upload`.
    """
    work = start_upload(plan, paths=paths, environ=environ, on_event=on_event, pace=pace)
    return wait_for(work)


def start_upload(
    plan: UploadPlan,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent = ignore_event,
    pace: Pace | None = None,
    cancel: Flag | None = None,
) -> Work[UploadResult]:
    """Start to upload what was planned, in a thread of its own.

    Args:
        plan: what.
        paths: our folders, for the token.
        environ: an environment, for the Hub's variables.
        on_event: told how it goes, in other threads.
        pace: how to get on with the network.
        cancel: ends the upload once it is set; None: only `Work.cancel` does.

    Raises:
        UploadFailed: there is no token; from the work's result: the Hub cannot be reached,
            refuses, or a file changes.
        NotFound: there is no such account or organization.
        UsageProblem: a public repository is there where a private one was asked for; HF_ENDPOINT
            is no address, or HF_TOKEN no token.
        StoreCorrupt: a token file cannot be read.
    """
    job = _Job(plan, paths=paths, environ=environ, on_event=on_event, pace=pace or Pace())
    return Work(job.run, cancel=cancel or Flag())


class _Job:
    """One upload. Made in the caller's thread, run in its own."""

    def __init__(
        self,
        plan: UploadPlan,
        *,
        paths: Paths,
        environ: Mapping[str, str],
        on_event: OnEvent,
        pace: Pace,
    ) -> None:
        token = check_way(paths, environ)
        self._plan = plan
        self._endpoint = checked_endpoint(endpoint_of(environ))
        self._asked = Asked(
            target=plan.request.target,
            repo_type=plan.repo_type,
            endpoint=self._endpoint,
            token=token,
        )
        self._tell = on_event
        self._pace = pace

    def run(self, cancel: Flag) -> UploadResult:
        """Upload everything; `cancel` ends it."""
        ending = Ending(cancel)
        tell = one_at_a_time(self._tell, ending)
        meter = Meter(self._plan, tell)
        carrier = Carrier(
            endpoint=self._endpoint,
            patience=self._pace.patience,
            answer_seconds=self._pace.answer_seconds,
            ending=ending,
            listener=_Listener(self._plan.files, meter, ending),
        )
        hub = Hub(self._asked, ending=ending, meter=meter, connections=self._pace.connections)
        try:
            with carrier.at_work():
                return _Run(self._plan, hub, meter, ending, tell, self._pace).run(self._asked)
        except Cancelled:
            raise (ending.reason or self._ended()) from None
        except MlxbunError as problem:
            raise (ending.reason or problem) from None
        except Stale as problem:  # before anything was offered: it answers from somewhere else
            raise UploadFailed(
                f"The Hugging Face Hub does not help: {problem}.",
                hint=f"Check HF_ENDPOINT, and whether {self._endpoint} opens.",
            ) from None

    def _ended(self) -> MlxbunError:
        return UploadFailed(f"The upload to {self._plan.request.target} was ended.", hint=_KEPT)


class _Listener:
    """Hears of the requests: the meter, and a last look at the files before they are committed."""

    def __init__(self, files: Sequence[LocalFile], meter: Meter, ending: Ending) -> None:
        self._files = files
        self._ending = ending
        self.retrying = meter.retrying
        self.answered = meter.answered

    def committing(self) -> None:
        """Look whether every file is still what was sent."""
        for name in changed_files(self._files):
            raise self._ending.fail(changed(name))


class _Run:
    """The steps of one upload."""

    def __init__(
        self,
        plan: UploadPlan,
        hub: Hub,
        meter: Meter,
        ending: Ending,
        tell: OnEvent,
        pace: Pace,
    ) -> None:
        self._plan = plan
        self._hub = hub
        self._meter = meter
        self._ending = ending
        self._tell = tell
        self._pace = pace

    def run(self, asked: Asked) -> UploadResult:
        """Take all of them."""
        self._tell(Planned(plan=self._plan))
        standing = self._hub.ensure(private=self._plan.request.private)
        self._tell_made(standing, asked)
        card = self._card(standing)
        hashes = hash_files(self._plan.files, ending=self._ending, on_read=self._meter.read)
        self._meter.start_sending(hashes)
        commit = self._commit_all(hashes, card)
        if card is not None and self._plan.request.keep_card:
            self._keep(card)
        return UploadResult(
            plan=self._plan,
            url=asked.page,
            commit=commit.sha,
            commit_url=commit.url,
            changed=commit.sha != standing.head,
            sent_bytes=self._meter.sent_bytes,
        )

    def _tell_made(self, standing: Standing, asked: Asked) -> None:
        if standing.made_repository:
            self._tell(Made(what="repository", url=asked.page, private=standing.private))
        elif standing.made_branch:
            self._tell(Made(what="branch", url=asked.page, private=standing.private))

    def _card(self, standing: Standing) -> str | None:
        """Return what README.md on the branch must be; None: it is no concern of ours.

        A card on the Hub that somebody has written stays. One of ours there may have been added to
        by hand around our part, so it goes before a new one.
        """
        plan = self._plan.card
        if plan.card is None or plan.text is None:
            return None
        there = None if standing.made_repository else self._hub.read_card()
        if there is None:
            return plan.text
        if owner_of(there) == "somebody":
            self._meter.note("The repository's README.md is somebody's own: it stays as it is.")
            return None
        return plan.text if plan.owner == "ours" else updated(there, plan.card)

    def _commit_all(self, hashes: Mapping[str, str], card: str | None) -> Commit:
        """Commit everything: at once what makes sense only whole, data in several goes."""
        groups = list(groups_of(self._plan)) or [()]
        for number, group in enumerate(groups, 1):
            part = f" (part {number} of {len(groups)})" if len(groups) > 1 else ""
            message = self._plan.message + part
            commit = self._commit(group, hashes, card if number == 1 else None, message)
            self._meter.committed(file.name for file in group)
        return commit

    def _commit(
        self,
        group: Sequence[LocalFile],
        hashes: Mapping[str, str],
        card: str | None,
        message: str,
    ) -> Commit:
        """Offer files until they are taken. What the Hub has by then is not sent again."""
        failures = 0
        while True:
            self._ending.check()
            try:
                return self._hub.commit(group, hashes, card=card, message=message)
            except Stale as problem:
                failures += 1
                if failures >= (self._pace.patience.tries if problem.unwell else _OFFERS):
                    raise UploadFailed(
                        f"The Hub does not take what is uploaded to {self._plan.request.target}:"
                        f" {problem}.",
                        hint=f"Try again later. {_KEPT}",
                    ) from None
                wait = self._pace.patience.wait(failures, wish=problem.wish)
                self._meter.retrying("the upload", str(problem), failures, wait)
            self._ending.wait(wait)

    def _keep(self, card: str) -> None:
        """Write the card into the folder, too."""
        try:
            with atomic_write(self._plan.request.source / README) as file:
                file.write(card.encode("utf-8"))
        except OSError as problem:
            self._tell(Noted(text=f"{README} cannot be written: {problem.strerror}."))


def one_at_a_time(on_event: OnEvent, ending: Ending) -> OnEvent:
    """Return what tells the events of several threads one after the other.

    Should whoever is told fail, everything ends with that failure.
    """
    lock = Lock()

    def tell(event: Event, /) -> None:
        with lock:
            try:
                on_event(event)
            except Exception as problem:
                ending.fail(problem)
                raise Cancelled from None

    return tell


def groups_of(plan: UploadPlan) -> Iterator[tuple[LocalFile, ...]]:
    """Yield the files that are committed together."""
    if plan.kind in ("model", "adapter"):
        yield plan.files
        return
    group: list[LocalFile] = []
    small = 0
    for file in plan.files:
        carried = file.size if file.size <= _SMALL else 0
        if len(group) == _COMMIT_FILES or (group and small + carried > _COMMIT_BYTES):
            yield tuple(group)
            group, small = [], 0
        group.append(file)
        small += carried
    yield tuple(group)


def _found(token: HubToken | None, endpoint: str, paths: Paths) -> HubToken:
    if token is None:
        raise no_token(endpoint, paths.token_file)
    return token
