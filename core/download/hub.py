"""One repository from the Hugging Face Hub, whole or not at all.

huggingface_hub does the transfer; it is imported late, because it takes a while. The repository
arrives in a stage and is moved into the cache at the end.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from core.download.space import check_free_space
from core.errors import DownloadFailed
from core.progress import Progress
from core.registry.cache import publish_repository, repo_folder, staging_folder
from core.registry.snapshot import find_problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.progress import OnProgress

PROBE_SECONDS = 5.0
MODEL_FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors", "README.md", "LICENSE*")


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Return the Hub's address, as huggingface_hub works it out."""
    return (environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def hub_obstacle(repo_id: str, environ: Mapping[str, str]) -> str | None:
    """Return why the Hub cannot be asked for a repository, or None when it answers.

    Takes `PROBE_SECONDS` at most, also where names are not resolved.
    """
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            return f"{name} is set"
    answers: list[str | None] = []
    url = f"{endpoint_of(environ)}/api/models/{repo_id}"
    probe = threading.Thread(target=lambda: answers.append(_probe(url)), daemon=True)
    probe.start()
    probe.join(PROBE_SECONDS)
    return answers[0] if answers else "The Hugging Face Hub does not answer"


def fetch_from_hub(
    repo_id: str, *, environ: Mapping[str, str], hub_cache: Path, on_progress: OnProgress
) -> None:
    """Fetch the main snapshot of a model repository into the cache.

    Raises:
        DownloadFailed: the transfer did not end well; the cache is as it was.
        DoesNotFit: the disk has no room for it.
        OSError: the cache cannot be written.
    """
    size = _size(repo_id, environ)
    check_free_space({hub_cache: size}, what=repo_id)
    with staging_folder(hub_cache) as stage:
        snapshot = _transfer(repo_id, environ, stage, _bar_class(repo_id, size, on_progress))
        if (problem := find_problem(snapshot)) is not None:
            raise DownloadFailed(f"{repo_id} came from the Hub, but {problem}.")
        publish_repository(repo_folder(stage, repo_id), hub_cache=hub_cache)


def _probe(url: str) -> str | None:
    import httpx

    try:
        response = httpx.get(url, timeout=PROBE_SECONDS, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return "The Hugging Face Hub cannot be reached"
    if response.is_success:
        return None
    return f"The Hugging Face Hub answers with status {response.status_code}"


def _size(repo_id: str, environ: Mapping[str, str]) -> int:
    """Return the bytes of the files that would be fetched."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    try:
        api = HfApi(endpoint=endpoint_of(environ))
        siblings = api.model_info(repo_id, files_metadata=True, timeout=30).siblings or []
    except _transfer_errors() as problem:
        raise _failed(repo_id, problem) from problem
    sizes = {sibling.rfilename: sibling.size or 0 for sibling in siblings}
    return sum(sizes[name] for name in filter_repo_objects(sizes, allow_patterns=[*MODEL_FILES]))


def _transfer(repo_id: str, environ: Mapping[str, str], stage: Path, bar_class: type[Any]) -> Path:
    from pathlib import Path

    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                repo_id,
                cache_dir=stage,
                endpoint=endpoint_of(environ),
                allow_patterns=[*MODEL_FILES],
                tqdm_class=bar_class,
            )
        )
    except _transfer_errors() as problem:
        raise _failed(repo_id, problem) from problem


def _transfer_errors() -> tuple[type[Exception], ...]:
    """Return what a transfer can raise; HTTPError is that of whichever client the hub uses."""
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    return HTTPError, OSError, ValueError, RuntimeError


def _failed(repo_id: str, problem: Exception) -> DownloadFailed:
    first = (str(problem).splitlines() or [type(problem).__name__])[0]
    return DownloadFailed(
        f"{repo_id} could not be fetched from the Hub: {first.rstrip('.')}.",
        hint="Check the network, and try again.",
    )


def _bar_class(repo_id: str, total: int, on_progress: OnProgress) -> type[Any]:
    """Return a progress bar that draws nothing and reports bytes.

    The hub keeps one bar of bytes received and one of bytes written; the one ahead is told.
    """
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    furthest = 0

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._counts_bytes = kwargs.get("unit") == "B"
            self._seen = 0
            super().__init__(*args, **{**kwargs, "disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> None:
            nonlocal furthest
            self._seen += int(n or 0)
            if self._counts_bytes and self._seen > furthest:
                furthest = min(self._seen, total)
                task = f"downloading {repo_id}"
                on_progress(Progress(task=task, done=furthest, total=total))

    return Bar
