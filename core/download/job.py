"""One download from its name to a snapshot in the cache, in a thread of its own.

`start_download` is for whoever has other things to do (a server), `download_repository` for whoever
waits (a command), `plan_download` for whoever only wants to know.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from core.download.blob import BlobFetch
from core.download.choose import Choice, choose_files
from core.download.client import HubClient, checked_endpoint
from core.download.events import OnEvent, Planned, Unlisted, ignore_event
from core.download.hub import check_online, endpoint_of
from core.download.layout import RepoLayout, has_symlinks
from core.download.ledger import Ledger, State
from core.download.listing import list_files
from core.download.local import find_complete
from core.download.meter import Meter
from core.download.patience import Patience
from core.download.plan import DownloadPlan, PlannedFile, make_plan
from core.download.space import check_free_space
from core.download.work import Work, wait_for
from core.errors import AlreadyRunning, DoesNotFit, DownloadFailed, MlxbunError
from core.hf_token import find_token
from core.offline import offline_switch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from pathlib import Path
    from typing import Any

    from core.download.names import RepoName
    from core.paths import Paths

_TICK_SECONDS = 0.2
_REPORT_SECONDS = 1.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_KEPT = "What has come is kept: the same command goes on there."

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DownloadRequest:
    """What is to be fetched, and how."""

    name: RepoName
    """The repository and the revision."""
    choice: Choice = field(default_factory=Choice)
    """Which of its files."""
    connections: int = 4
    """Files that are on their way at once."""
    patience: Patience = field(default_factory=Patience)
    """How long to wait, and how often to try."""


@dataclass(frozen=True, kw_only=True)
class DownloadResult:
    """A download that has come to its end."""

    plan: DownloadPlan
    """What it was, as of its start."""
    received_bytes: int
    """Bytes that came over the network."""


def plan_download(
    request: DownloadRequest, *, paths: Paths, environ: Mapping[str, str]
) -> DownloadPlan:
    """Return what a download would fetch. Writes nothing.

    Raises:
        DownloadFailed: the Hub cannot be reached, or refuses.
        NotFound: no such repository, revision or file.
        BadModelFiles: the repository has no weights for MLX, and no file was asked for by name.
        UsageProblem: HF_ENDPOINT is no address.
    """
    if here := _complete_offline(request, paths, environ):
        return here
    job = _Job(request, paths=paths, environ=environ, on_event=ignore_event)
    return wait_for(Work(job.plan, cancel=Flag()))


def download_repository(
    request: DownloadRequest,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent = ignore_event,
) -> DownloadResult:
    """Fetch a repository and return when it is there. Ctrl-C ends it within moments.

    Without network it succeeds for a model that is complete on this disk.

    Raises:
        AlreadyRunning: this or another process fetches the repository already.
        DoesNotFit: the disk has no room for what is missing.
        MlxbunError: as `plan_download`, or the transfer did not end well.
    """
    if here := _complete_offline(request, paths, environ):
        on_event(Planned(plan=here))
        return DownloadResult(plan=here, received_bytes=0)
    return wait_for(start_download(request, paths=paths, environ=environ, on_event=on_event))


def start_download(
    request: DownloadRequest,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent = ignore_event,
    cancel: Flag | None = None,
) -> Work[DownloadResult]:
    """Start to fetch a repository and return at once.

    Args:
        request: what.
        paths: our folders and the Hugging Face cache.
        environ: an environment, for the Hub's variables.
        on_event: told how it goes, in the download's thread.
        cancel: an event that ends it, besides `Work.cancel`.

    Raises:
        AlreadyRunning: this or another process fetches the repository already.
        DownloadFailed: the network may not be used.
        UsageProblem: HF_ENDPOINT is no address, or HF_TOKEN no token.
    """
    job = _Job(request, paths=paths, environ=environ, on_event=on_event)
    job.begin()
    return Work(job.run, cancel=cancel or Flag())


def _complete_offline(
    request: DownloadRequest, paths: Paths, environ: Mapping[str, str]
) -> DownloadPlan | None:
    """Return the plan of a model that is here, where the network may not be used.

    Which files match --include is known to the Hub only.
    """
    if offline_switch(environ) is None or request.choice.include:
        return None
    return find_complete(request.name, paths.hub_cache)


class _Job:
    """One download. Made and begun in the caller's thread, run in its own."""

    def __init__(
        self,
        request: DownloadRequest,
        *,
        paths: Paths,
        environ: Mapping[str, str],
        on_event: OnEvent,
    ) -> None:
        check_online(environ)
        self._request = request
        self._name = request.name
        self._environ = environ
        self._endpoint = checked_endpoint(endpoint_of(environ))
        self._token = find_token(paths, environ)
        self._layout = RepoLayout(hub_cache=paths.hub_cache, repo_id=request.name.repo_id)
        self._tell = on_event
        self._ledger = Ledger(paths.downloads_file)
        self._number: int | None = None
        self._meter: Meter | None = None
        self._reported = 0.0

    def begin(self) -> None:
        """Enter the download in the ledger; without one that can be written it runs unlisted."""
        try:
            self._number = self._ledger.begin(self._name.repo_id, self._name.revision)
        except AlreadyRunning:
            raise
        except MlxbunError as problem:
            self._tell(Unlisted(reason=problem.message))

    def plan(self, cancel: Flag) -> DownloadPlan:
        """Ask the Hub and compare with the disk."""
        return self._run(self._plan(), cancel)

    def run(self, cancel: Flag) -> DownloadResult:
        """Fetch everything, and note how it ends."""
        state: State = "failed"
        error: str | None = f"It ended unexpectedly. {_KEPT}"
        try:
            result = self._run(self._fetch(), cancel)
        except _Cancelled as problem:
            state, error = "cancelled", None
            raise problem.told from None
        except MlxbunError as problem:
            error = problem.message
            raise
        else:
            state, error = "done", None
            return result
        finally:
            self._report(last=True)
            if self._number is not None:
                with suppress(MlxbunError):
                    self._ledger.end(self._number, state, error=error)

    def _run(self, work: Coroutine[Any, Any, T], cancel: Flag) -> T:
        try:
            return asyncio.run(self._watch(work, cancel))
        except OSError as problem:
            raise self._disk_problem(problem) from problem

    async def _watch(self, work: Coroutine[Any, Any, T], cancel: Flag) -> T:
        """Do the work, look at the clock meanwhile, and end it when that is asked for."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.wait({task}, timeout=_TICK_SECONDS)
            if cancel.is_set() and not task.done():
                task.cancel()
                await asyncio.wait({task})
            elif self._meter is not None:
                self._meter.tick()
                self._report()
        if task.cancelled():
            raise _Cancelled(self._name)
        return task.result()

    async def _plan(self) -> DownloadPlan:
        async with self._client() as client:
            return await self._ask(client)

    async def _ask(self, client: HubClient) -> DownloadPlan:
        listing = await list_files(client, self._name)
        chosen = choose_files(listing.sizes(), self._request.choice, repo_id=self._name.repo_id)
        return make_plan(self._name, listing, chosen, self._layout)

    async def _fetch(self) -> DownloadResult:
        async with self._client() as client:
            plan = await self._ask(client)
            check_free_space({self._layout.blobs: plan.missing_bytes}, what=str(self._name))
            self._layout.prepare()
            self._meter = meter = Meter(plan, self._tell)
            self._tell(Planned(plan=plan))
            await self._fetch_all(plan, client, meter)
        self._layout.publish(
            plan.commit,
            {file.name: file.etag for file in plan.files},
            revision=self._name.revision,
            symlinks=has_symlinks(self._layout.hub_cache, self._environ),
            fresh={file.etag for file in plan.files if not file.is_here},
        )
        return DownloadResult(plan=plan, received_bytes=meter.received_bytes)

    async def _fetch_all(self, plan: DownloadPlan, client: HubClient, meter: Meter) -> None:
        """Fetch what is missing, some files at once; the first failure ends the others."""
        turn = asyncio.Semaphore(self._request.connections)

        async def fetch(file: PlannedFile) -> None:
            async with turn:
                await BlobFetch(
                    file,
                    f"{self._endpoint}/{self._name.repo_id}/resolve/{plan.commit}/"
                    f"{quote(file.name)}",
                    client=client,
                    layout=self._layout,
                    patience=self._request.patience,
                    listener=meter,
                ).fetch()
            meter.finished(file)

        try:
            async with asyncio.TaskGroup() as group:
                for file in plan.contents:
                    if not file.is_here:
                        group.create_task(fetch(file))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    def _client(self) -> HubClient:
        return HubClient(
            self._name,
            endpoint=self._endpoint,
            token=self._token,
            patience=self._request.patience,
            on_event=self._tell,
        )

    def _report(self, *, last: bool = False) -> None:
        """Note in the ledger where it stands; not more often than anybody looks."""
        now = time.monotonic()
        if self._number is None or self._meter is None:
            return
        if last or now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            with suppress(MlxbunError):
                self._ledger.report(self._number, self._meter.transfer())

    def _disk_problem(self, problem: OSError) -> MlxbunError:
        """Return what the system's refusal means."""
        cache = self._layout.hub_cache
        if problem.errno in _FULL:
            return DoesNotFit(
                f"The disk of {cache} is full.",
                need=0,
                have=_free(cache),
                hint=f"Free some room. {_KEPT}",
            )
        return DownloadFailed(
            f"The Hugging Face cache {cache} cannot be written:"
            f" {problem.strerror or type(problem).__name__}.",
            hint="Make it writable, or set HF_HOME to a folder that is.",
        )


class _Cancelled(Exception):
    """The work was ended from outside."""

    def __init__(self, name: RepoName) -> None:
        super().__init__(str(name))
        self.told = DownloadFailed(f"The download of {name} was ended.", hint=_KEPT)


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
