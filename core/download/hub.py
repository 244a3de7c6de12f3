"""Where the Hugging Face Hub is, and whether it may and can be asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from core.errors import DownloadFailed
from core.offline import how_to_lift, offline_switch

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBE_SECONDS = 5.0


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Return the Hub's address, as huggingface_hub works it out."""
    return (environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def check_online(environ: Mapping[str, str]) -> None:
    """Check that the network may be used.

    Raises:
        DownloadFailed: it may not.
    """
    if (name := offline_switch(environ)) is not None:
        raise DownloadFailed(
            f"{name} is set, so nothing is fetched.",
            hint=f"{how_to_lift(name)} to download; `mlxbun ls` shows what is here.",
        )


def hub_obstacle(repo_id: str, environ: Mapping[str, str]) -> str | None:
    """Return why the Hub cannot be asked for a repository, or None when it answers.

    Takes `PROBE_SECONDS` at most, also where names are not resolved.
    """
    answers: list[str | None] = []
    url = f"{endpoint_of(environ)}/api/models/{repo_id}"
    probe = threading.Thread(target=lambda: answers.append(_probe(url)), daemon=True)
    probe.start()
    probe.join(PROBE_SECONDS)
    return answers[0] if answers else "The Hugging Face Hub does not answer"


def _probe(url: str) -> str | None:
    import httpx

    try:
        response = httpx.get(url, timeout=PROBE_SECONDS, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return "The Hugging Face Hub cannot be reached"
    if response.is_success:
        return None
    return f"The Hugging Face Hub answers with status {response.status_code}"
