"""The files of a repository at a revision, as the Hub lists them, believed in nothing.

Names become paths and hashes become file names on our disk: what cannot be one is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from core.download.names import COMMIT
from core.errors import DownloadFailed

if TYPE_CHECKING:
    from core.download.client import HubClient
    from core.download.names import RepoName

_MOST_PAGES = 500  # of a thousand files each
_MOST_BYTES = 2**53  # of one file; JSON's own bound for exact numbers
_SHA1 = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """One file of a repository."""

    name: str
    """Its path in the repository, with `/`; relative, and inside."""
    size: int
    """Bytes."""
    etag: str
    """The name of its blob: SHA-256 of a file in LFS, git's SHA-1 of any other."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Everything that a repository holds at one commit."""

    commit: str
    """40 hexadecimal digits."""
    files: tuple[HubFile, ...]
    """In the Hub's order, each name once."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every file by its name."""
        return {file.name: file.size for file in self.files}


async def list_files(client: HubClient, name: RepoName) -> Listing:
    """Ask the Hub what a repository holds.

    Source: the endpoints that huggingface_hub's `snapshot_download` asks, `/api/models/ID/revision`
    and `/tree`, the second in pages linked by a `Link` header.

    Raises:
        DownloadFailed: the Hub cannot be reached, refuses, or answers nonsense.
        NotFound: no such repository or revision.
    """
    base = f"{client.asked.endpoint}/api/models/{name.repo_id}"
    commit = name.revision if name.is_commit else await _commit(client, name, base)
    files: dict[str, HubFile] = {}
    url = f"{base}/tree/{commit}?recursive=true&expand=false"
    for _ in range(_MOST_PAGES):
        page = await client.ask(url)
        files |= {file.name: file for file in _read_page(page.content, client)}
        if page.next_url is None:
            return Listing(commit=commit, files=tuple(files.values()))
        url = page.next_url
    raise _nonsense(client, "its list of files has no end")


async def _commit(client: HubClient, name: RepoName, base: str) -> str:
    page = await client.ask(f"{base}/revision/{quote(name.revision, safe='')}")
    commit = page.content.get("sha") if isinstance(page.content, dict) else None
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise _nonsense(client, "it names no commit")
    return commit


def _read_page(content: Any, client: HubClient) -> list[HubFile]:
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise _nonsense(client, "its list of files is none")
    return [_read_entry(entry, client) for entry in content if entry.get("type") == "file"]


def _read_entry(entry: dict[str, Any], client: HubClient) -> HubFile:
    lfs = entry.get("lfs")
    holder = lfs if isinstance(lfs, dict) else entry
    name, size, etag = entry.get("path"), holder.get("size"), holder.get("oid")
    if not isinstance(name, str) or not _stays_inside(name):
        raise _nonsense(client, f"it lists a file that is called {str(name)[:80]!r}")
    if type(size) is not int or not 0 <= size <= _MOST_BYTES:
        raise _nonsense(client, f"it lists {name!r} with the size {str(size)[:40]!r}")
    pattern = _SHA1 if holder is entry else _SHA256
    if not isinstance(etag, str) or not pattern.fullmatch(etag):
        raise _nonsense(client, f"it lists {name!r} with the hash {str(etag)[:80]!r}")
    return HubFile(name=name, size=size, etag=etag)


def _stays_inside(name: str) -> bool:
    """Return whether a name is a relative path that no system reads as anything else."""
    parts = name.split("/")
    return (
        name.isprintable()
        and "\\" not in name
        and all(part not in ("", ".", "..") and len(part.encode()) <= 255 for part in parts)
        and len(name.encode()) <= 1024
    )


def _nonsense(client: HubClient, what: str) -> DownloadFailed:
    return DownloadFailed(
        f"The Hub's answer about {client.asked.name} makes no sense: {what}.",
        hint="Nothing was written. Check HF_ENDPOINT, or report it to whoever runs that Hub.",
    )
