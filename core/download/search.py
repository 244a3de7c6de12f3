"""Looking for models on the Hub by words. Asks once, for a few seconds, and fetches nothing."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from core.download.client import checked_endpoint
from core.download.hub import check_online, endpoint_of
from core.download.names import parse_name
from core.errors import DownloadFailed, UsageProblem
from core.hf_token import find_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.hf_token import HubToken
    from core.paths import Paths

SEARCH_SECONDS = 10.0
"""How long the Hub gets for its whole answer."""

_TAG = "mlx"  # what repositories with weights for MLX carry
_MOST_FOUND = 30
_MOST_BYTES = 8 * 2**20
_MOST_COUNT = 2**53  # what JSON's readers hold exactly
_TRY_AGAIN = "Check the network, and try again."


@dataclass(frozen=True, kw_only=True)
class FoundModel:
    """A repository that fits what was looked for."""

    repo_id: str
    """`org/name`."""
    downloads: int
    """How often it was fetched lately, as the Hub counts."""
    likes: int
    """How many people like it."""


def search_models(
    query: str,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    seconds: float = SEARCH_SECONDS,
) -> list[FoundModel]:
    """Return models for MLX whose names fit some words: 30 at most, the most fetched first.

    Args:
        query: the words.
        paths: our folders, for the token.
        environ: the environment, for the Hub's address, the token and the offline switches.
        seconds: how long the Hub gets.

    Raises:
        DownloadFailed: the Hub cannot be reached, takes too long, refuses or answers nonsense.
        UsageProblem: HF_ENDPOINT is no address, or HF_TOKEN no token.
        StoreCorrupt: a token file cannot be read.
    """
    check_online(environ)
    endpoint = checked_endpoint(endpoint_of(environ))
    token = find_token(paths, environ)
    try:
        body = _ask(f"{endpoint}/api/models", query, token, seconds)
    except httpx.TimeoutException:
        raise _too_slow(seconds) from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise DownloadFailed("The Hugging Face Hub cannot be reached.", hint=_TRY_AGAIN) from None
    return _models_in(body, endpoint)


def _ask(url: str, query: str, token: HubToken | None, seconds: float) -> bytes:
    """Return the body of the Hub's answer.

    Raises:
        DownloadFailed: it takes too long, refuses or has no end.
        httpx.HTTPError: there is no answer.
    """
    words = {
        "search": query,
        "filter": _TAG,
        "sort": "downloads",
        "direction": "-1",
        "limit": str(_MOST_FOUND),
    }
    headers = {"User-Agent": "mlxbun", "Accept-Encoding": "identity"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token.value}"
    end = time.monotonic() + seconds
    body = bytearray()
    # Redirects are not followed: the token belongs to the Hub's own host.
    with (
        httpx.Client(timeout=seconds, follow_redirects=False) as client,
        client.stream("GET", url, params=words, headers=headers) as response,
    ):
        _check(response.status_code, token)
        for chunk in response.iter_bytes():
            body += chunk
            if time.monotonic() > end:
                raise _too_slow(seconds)
            if len(body) > _MOST_BYTES:
                raise DownloadFailed("The Hugging Face Hub's answer has no end.")
    return bytes(body)


def _check(status: int, token: HubToken | None) -> None:
    """Let a good answer pass.

    Raises:
        DownloadFailed: it is none.
    """
    if status == 200:
        return
    if status in (401, 403) and token is not None:
        raise DownloadFailed(
            f"The Hugging Face Hub does not accept the token in {token.source}.",
            hint="Renew it, or remove it: searching needs none.",
        )
    raise DownloadFailed(f"The Hugging Face Hub answers with status {status}.", hint=_TRY_AGAIN)


def _models_in(body: bytes, endpoint: str) -> list[FoundModel]:
    """Return the models in the Hub's answer; what is no repository of MLX is passed over."""
    try:
        rows = json.loads(body)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise DownloadFailed(
            f"{endpoint} does not answer like a Hugging Face Hub.",
            hint="Check HF_ENDPOINT, and whether a proxy or a login page stands in between.",
        )
    found = [_model(row) for row in rows if isinstance(row, dict) and _is_for_mlx(row)]
    return [model for model in found if model is not None][:_MOST_FOUND]


def _is_for_mlx(row: dict[str, Any]) -> bool:
    tags = row.get("tags")
    return _TAG in tags if isinstance(tags, list) else True  # the Hub has filtered already


def _model(row: dict[str, Any]) -> FoundModel | None:
    """Return the model of a row, or None where its id is none that could be fetched."""
    name = row.get("id", row.get("modelId"))
    try:
        repo_id = parse_name(name).repo_id if isinstance(name, str) else None
    except UsageProblem:
        return None
    if repo_id is None or repo_id != name:
        return None
    return FoundModel(
        repo_id=repo_id, downloads=_count(row.get("downloads")), likes=_count(row.get("likes"))
    )


def _count(value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNT
    return value if whole else 0


def _too_slow(seconds: float) -> DownloadFailed:
    return DownloadFailed(
        f"The Hugging Face Hub did not answer within {seconds:g} seconds.", hint=_TRY_AGAIN
    )
