"""A Hugging Face Hub on loopback, for real huggingface_hub traffic without a network.

Serves what downloads ask for: model information, the tree of files, lists, and the files with
commit, etag, ranges and the Hub's own 404s. It can cut bodies short and refuse to be of use.

    with FakeHub() as hub:
        hub.add("org/name", {"config.json": b"{}"})
        ... HF_ENDPOINT=hub.url ...
        assert "GET /api/models/org/name" in hub.log
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

LARGE = (".safetensors", ".gguf", ".bin")  # files that the Hub keeps in LFS


@dataclass
class FakeRepo:
    """One model repository with one revision, `main`."""

    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """The revision's hash: it changes with the files."""
        content = sorted(
            (name, hashlib.sha1(data).hexdigest()) for name, data in self.files.items()
        )
        return hashlib.sha1(repr(content).encode()).hexdigest()


class FakeHub:
    """The server; a context manager that is up inside its block.

    Attributes:
        repos: the repositories, by id.
        log: every request as `METHOD path`, in order.
        cuts: how many of the next bodies of large files end in the middle.
        broken: answer everything with status 500.
    """

    def __init__(self) -> None:
        self.repos: dict[str, FakeRepo] = {}
        self.log: list[str] = []
        self.cuts = 0
        self.broken = False
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self

    @property
    def url(self) -> str:
        """What HF_ENDPOINT must be."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, repo_id: str, files: dict[str, bytes]) -> FakeRepo:
        """Add a repository."""
        self.repos[repo_id] = FakeRepo(dict(files))
        return self.repos[repo_id]

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def etag(name: str, data: bytes) -> str:
    """Return the name of a file's blob: SHA-256 in LFS, else git's own hash."""
    if name.endswith(LARGE):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: FakeHub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> FakeHub:
        return cast("_Server", self.server).hub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: `FakeHub.log` keeps the requests."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.log.append(f"{self.command} {path}")
        if self.hub.broken:
            self._json({"error": "out of order"}, status=500)
        elif path == "/api/models":
            self._json([_information(name, repo) for name, repo in self.hub.repos.items()])
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
            self._model(*match.groups())
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(*match.groups())
        else:
            self._json({"error": path}, status=404)

    def do_HEAD(self) -> None:
        self.do_GET()  # `_answer` keeps the body back

    def _repo(self, repo_id: str, revision: str | None) -> FakeRepo | None:
        """Return a repository, or answer with the Hub's 404 and return None."""
        repo = self.hub.repos.get(repo_id)
        if repo is None:
            self._json({"error": "Repository not found"}, status=404, code="RepoNotFound")
            return None
        if revision not in (None, "main", repo.commit):
            self._json({"error": "Invalid rev id"}, status=404, code="RevisionNotFound")
            return None
        return repo

    def _model(self, repo_id: str, part: str | None, revision: str | None) -> None:
        repo = self._repo(repo_id, revision)
        if repo is not None:
            tree = [_tree_entry(name, data) for name, data in repo.files.items()]
            self._json(tree if part == "tree" else _information(repo_id, repo))

    def _file(self, repo_id: str, revision: str, name: str) -> None:
        repo = self._repo(repo_id, revision)
        if repo is None:
            return
        commit = {"X-Repo-Commit": repo.commit}
        if name not in repo.files:
            self._json({"error": "no such file"}, status=404, code="EntryNotFound", headers=commit)
            return
        data = repo.files[name]
        headers = {**commit, "ETag": f'"{etag(name, data)}"', "Accept-Ranges": "bytes"}
        start, status = 0, 200
        if match := re.match(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start, status = int(match[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        body = data[start:]
        sent = body
        if self.command == "GET" and name.endswith(LARGE) and self.hub.cuts > 0:
            self.hub.cuts -= 1
            self.close_connection = True
            sent = body[: len(body) // 2]
        self._answer(sent, status=status, length=len(body), headers=headers)

    def _json(
        self,
        content: Any,
        *,
        status: int = 200,
        code: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        body = json.dumps(content).encode()
        told = {"Content-Type": "application/json", **(headers or {})}
        if code:
            told["X-Error-Code"] = code
        self._answer(body, status=status, length=len(body), headers=told)

    def _answer(self, body: bytes, *, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _information(repo_id: str, repo: FakeRepo) -> dict[str, Any]:
    siblings = [
        {"rfilename": name, "size": len(data), "blobId": etag(name, data)}
        for name, data in repo.files.items()
    ]
    return {
        "_id": "0" * 24,
        "id": repo_id,
        "modelId": repo_id,
        "sha": repo.commit,
        "private": False,
        "siblings": siblings,
        "tags": ["mlx"],
        "downloads": 1,
        "likes": 0,
    }


def _tree_entry(name: str, data: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": name, "size": len(data), "oid": etag(name, data)}
    if name.endswith(LARGE):
        entry["lfs"] = {"oid": etag(name, data), "size": len(data), "pointerSize": 130}
    return entry
