"""A model on the Hub, looked at without fetching it: config.json and the headers of its weights.

Of each weights file only the beginning is asked for, by range; from a server that ignores ranges it
is read as far as the header goes, and no further. The token goes to the Hub's own host and never to
one that it redirects to.
"""

from __future__ import annotations

import json
import os
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from core.errors import BadModelFiles, DownloadFailed, NotFound, UsageProblem
from core.fit.weights import parse_header
from core.offline import how_to_lift, offline_switch
from core.registry.weights import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import httpx

    from core.fit.weights import Tensor
    from core.hf_token import HubToken

_REPO_ID = re.compile(r"[\w\-][\w\-.]{0,95}/[\w\-][\w\-.]{0,95}", re.ASCII)
_REVISION = re.compile(r"\w[\w.\-+/]{0,199}", re.ASCII)
_MOST_JSON = 16 * 2**20  # bytes
_MOST_HEADER = 100_000_000  # bytes; the format's own bound
_FIRST_PART = 128 * 1024  # bytes; most headers are smaller
_MOST_FILES = 2_000
_MOST_REDIRECTS = 5
_AT_ONCE = 8
_SECONDS = 20.0
_CHECK_NETWORK = "Check the network and HF_ENDPOINT, and try again."


@dataclass(frozen=True, kw_only=True)
class RemoteModel:
    """What the Hub tells of a model."""

    repo_id: str
    """`org/name`."""
    commit: str
    """The revision that was looked at; empty when the Hub does not tell."""
    config: Mapping[str, Any]
    """config.json."""
    tensors: list[Tensor]
    """Of all its weights files."""


def is_repo_id(name: str) -> bool:
    """Return whether a name can be that of a repository on the Hub, with `@revision` or without."""
    repo_id, at, revision = name.partition("@")
    good = _REPO_ID.fullmatch(repo_id) and ".." not in repo_id and "--" not in repo_id
    return bool(good) and (not at or _REVISION.fullmatch(revision) is not None)


def look_at(name: str, *, environ: Mapping[str, str], token: HubToken | None) -> RemoteModel:
    """Return what the Hub tells of a model.

    Args:
        name: `org/name` or `org/name@revision`.
        environ: an environment; `HF_ENDPOINT` and the offline switches count.
        token: what to show the Hub, or None.

    Raises:
        UsageProblem: the name or `HF_ENDPOINT` cannot be.
        NotFound: there is no such repository or revision.
        DownloadFailed: the Hub is not asked, does not answer, or refuses.
        BadModelFiles: the repository holds no model in safetensors, or a broken one.
    """
    import httpx

    if not is_repo_id(name):
        raise UsageProblem(f"{name[:80]!r} is no repository on the Hub.", hint="Write org/name.")
    if (switch := offline_switch(environ)) is not None:
        raise DownloadFailed(
            f"The Hub is not asked for {name}: {switch} is set.",
            hint=f"{how_to_lift(switch)}; `mlxbun ls` shows what is here.",
        )
    endpoint = (environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    headers = {"User-Agent": "mlxbun", "Accept-Encoding": "identity"}
    try:
        with httpx.Client(timeout=_SECONDS, headers=headers) as client:
            return _Hub(client, endpoint, token).model(name)
    except (httpx.HTTPError, httpx.InvalidURL) as problem:
        reason = str(problem) or type(problem).__name__
        raise DownloadFailed(
            f"The Hub at {endpoint[:100]} cannot be asked for {name}: {reason.rstrip('.')}.",
            hint=_CHECK_NETWORK,
        ) from problem


class _Hub:
    """One Hub, asked about one repository."""

    def __init__(self, client: httpx.Client, endpoint: str, token: HubToken | None) -> None:
        if urlsplit(endpoint).scheme not in ("http", "https"):
            raise UsageProblem(
                f"{endpoint[:100]!r} is no address of a Hugging Face Hub.",
                hint="HF_ENDPOINT looks like https://huggingface.co.",
            )
        self._client = client
        self._endpoint = endpoint
        self._token = token

    def model(self, name: str) -> RemoteModel:
        """Return what it tells of a model."""
        repo_id, _, revision = name.partition("@")
        told = self._json(name, f"/api/models/{repo_id}/revision/{quote(revision or 'main', '')}")
        commit = told.get("sha") if isinstance(told.get("sha"), str) else ""
        files = _weight_files(told)
        if not files:
            raise BadModelFiles(
                f"{name} holds no safetensors weights ({WEIGHTS}) on the Hub.",
                hint="Look for a conversion of it, for example in mlx-community.",
            )
        base = f"/{repo_id}/resolve/{quote(commit or revision or 'main', '')}/"
        config = self._json(name, base + "config.json")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            headers = list(pool.map(lambda file: self._header(name, base + quote(file)), files))
        return RemoteModel(
            repo_id=repo_id,
            commit=commit or "",
            config=config,
            tensors=[tensor for header in headers for tensor in header],
        )

    def _json(self, name: str, path: str) -> dict[str, Any]:
        with self._get(name, path) as response:
            body = _read(response, _MOST_JSON + 1)
        try:
            content = json.loads(body) if len(body) <= _MOST_JSON else None
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            file = path.rpartition("/")[2]
            raise BadModelFiles(f"{file} of {name} on the Hub is no JSON object.")
        return content

    def _header(self, name: str, path: str) -> list[Tensor]:
        """Return the tensors of one weights file."""
        beginning, size = self._beginning(name, path, _FIRST_PART)
        file = f"{name}/{path.rpartition('/')[2]}"
        length = struct.unpack("<Q", beginning[:8])[0] if len(beginning) >= 8 else _MOST_HEADER + 1
        if length > _MOST_HEADER:
            raise _broken(file, "it does not begin with a header")
        if len(beginning) < 8 + length:
            beginning, size = self._beginning(name, path, 8 + length)
        try:
            header = json.loads(beginning[8 : 8 + length])
        except (ValueError, RecursionError) as problem:
            raise _broken(file, "its header is not JSON") from problem
        if not isinstance(header, dict) or len(beginning) < 8 + length:
            raise _broken(file, "its header is no JSON object")
        header.pop("__metadata__", None)
        tensors = list(parse_header(header, file))
        if size is not None and 8 + length + sum(tensor.nbytes for tensor in tensors) > size:
            raise _broken(file, f"its header promises more than its {size} bytes")
        return tensors

    def _beginning(self, name: str, path: str, count: int) -> tuple[bytes, int | None]:
        """Return the first bytes of a file, and the file's size where it is told."""
        with self._get(name, path, {"Range": f"bytes=0-{count - 1}"}) as response:
            return _read(response, count), _size_of(response)

    @contextmanager
    def _get(
        self, name: str, path: str, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """Yield the answer at the end of the redirects; leaving the block closes it."""
        url = self._endpoint + path
        for _ in range(_MOST_REDIRECTS):
            sent = {**(headers or {}), **self._authorization(url)}
            with self._client.stream("GET", url, headers=sent) as response:
                if not response.has_redirect_location:
                    _refuse(response, name)
                    yield response
                    return
                url = urljoin(url, response.headers["Location"])
                if urlsplit(url).scheme not in ("http", "https"):
                    break
        raise DownloadFailed(f"The Hub sends us in circles for {name}.", hint=_CHECK_NETWORK)

    def _authorization(self, url: str) -> dict[str, str]:
        if self._token is None or _origin(url) != _origin(self._endpoint):
            return {}
        return {"Authorization": f"Bearer {self._token.value}"}


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _read(response: httpx.Response, count: int) -> bytes:
    """Return at most `count` bytes of a body, and read no more of it than they take."""
    parts, length = [], 0
    for part in response.iter_raw(64 * 1024):
        parts.append(part)
        length += len(part)
        if length >= count:
            break
    return b"".join(parts)[:count]


def _size_of(response: httpx.Response) -> int | None:
    """Return the size of the whole file, from `Content-Range` or from the length of it all."""
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    if response.status_code == 200:
        total = response.headers.get("Content-Length", "")
    return int(total[:20]) if total.isdigit() else None


def _weight_files(told: Mapping[str, Any]) -> list[str]:
    """Return the names of the files that mlx-lm would load."""
    siblings = told.get("siblings")
    entries = siblings if isinstance(siblings, list) else []
    names = [entry.get("rfilename") for entry in entries if isinstance(entry, dict)]
    found = [
        name
        for name in names
        if isinstance(name, str) and os.sep not in name and fnmatch(name, WEIGHTS)
    ]
    return sorted(found)[:_MOST_FILES]


def _refuse(response: httpx.Response, name: str) -> None:
    """Raise what an answer means that is none.

    Raises:
        NotFound: no such repository, revision or file.
        DownloadFailed: anything else that went wrong.
    """
    status, code = response.status_code, response.headers.get("X-Error-Code", "")
    if response.is_success:
        return
    if code == "GatedRepo" or status == 403:
        raise DownloadFailed(
            f"{name} is gated on the Hub: it is shown only to those who were let in.",
            hint="Ask for access on its page, and set HF_TOKEN or run `hf auth login`.",
        )
    if code == "RevisionNotFound":
        raise NotFound(f"There is no such revision on the Hub: {name}.")
    if code == "EntryNotFound":
        file = response.url.path.rpartition("/")[2]
        raise BadModelFiles(f"{name} has no {file[:80]} on the Hub.")
    if status == 416:  # there is not even a first byte
        file = response.url.path.rpartition("/")[2]
        raise _broken(f"{name}/{file[:80]}", "it is empty")
    if status in (401, 404):
        raise NotFound(
            f"There is no model {name} here or on the Hub, or it is private.",
            hint="Check its name; for a private one set HF_TOKEN or run `hf auth login`.",
        )
    raise DownloadFailed(
        f"The Hub answers with status {status} when asked for {name}.", hint=_CHECK_NETWORK
    )


def _broken(file: str, reason: str) -> BadModelFiles:
    return BadModelFiles(f"The weights file {file} on the Hub is broken: {reason}.")
