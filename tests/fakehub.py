"""A Hugging Face Hub on loopback, for real huggingface_hub traffic without a network.

Serves what downloads ask for: model information, the tree of files in pages, lists, and the files
with commit, etag, ranges and the Hub's own refusals. Large files are redirected to a second host
(another port), as the real Hub does. It can be told what goes wrong.

    with FakeHub() as hub:
        hub.add("org/name", {"config.json": b"{}"})
        ... HF_ENDPOINT=hub.url ...
        assert "GET /api/models/org/name" in hub.log
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, quote, unquote, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

LARGE = (".safetensors", ".gguf", ".bin")  # files that the Hub keeps in LFS
_PIECE = 2**14


@dataclass
class FakeRepo:
    """One model repository: `main` and whatever else it is given."""

    files: dict[str, bytes] = field(default_factory=dict)
    revisions: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: bool = False
    gated: bool = False

    @property
    def commit(self) -> str:
        """The hash of `main`: it changes with the files."""
        return commit_of(self.files)

    def at(self, revision: str | None) -> dict[str, bytes] | None:
        """Return the files of a branch, a tag or a commit; None: there is no such revision."""
        named = {"main": self.files, **self.revisions}
        return (named | {commit_of(files): files for files in named.values()}).get(
            revision or "main"
        )


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with some bodies."""

    name: str = ""
    """The end of the file's name; empty: any file."""
    times: int = 1
    """How many bodies."""
    status: int = 0
    """Answer with this instead."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers that are added, or take the place of others."""
    cut: int | None = None
    """Bytes of the body until the connection closes."""
    stall: int | None = None
    """Bytes of the body until nothing comes any more."""
    flip: int | None = None
    """The byte of the file that is another."""
    body: bytes | None = None
    """The whole file, in place of its own content."""
    endless: bool = False
    """The body has no length and no end."""
    no_ranges: bool = False
    """The file is sent from its beginning, whatever was asked for."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    on_hub: bool
    """False: it came to the host that large files are redirected to."""
    headers: dict[str, str]
    """Names in lower case."""


class FakeHub:
    """The server; a context manager that is up inside its block.

    Attributes:
        repos: the repositories, by id.
        log: every request as `METHOD path`, in order.
        requests: the same with hosts and headers.
        served: the bytes of bodies that were sent, by file name.
        faults: what goes wrong with bodies of files; the first that fits is taken.
        cuts: how many of the next bodies of large files end in the middle.
        broken: answer everything with status 500.
        tokens: those that are accepted; what they may see is everything.
        raw: bodies that are answered in place of the JSON at a path.
        page: entries on a page of the tree; 0: all.
        pace: seconds between two pieces of 16 KiB of a large file.
        sending: the threads that send a body.
    """

    def __init__(self) -> None:
        self.repos: dict[str, FakeRepo] = {}
        self.log: list[str] = []
        self.requests: list[Request] = []
        self.served: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.cuts = 0
        self.broken = False
        self.tokens: set[str] = set()
        self.raw: dict[str, bytes] = {}
        self.page = 0
        self.pace = 0.0
        self.sending: set[int] = set()
        self.over = threading.Event()
        self._hub = _Server(("127.0.0.1", 0), _Handler, hub=self, on_hub=True)
        self._storage = _Server(("127.0.0.1", 0), _Handler, hub=self, on_hub=False)

    @property
    def url(self) -> str:
        """What HF_ENDPOINT must be."""
        return self._hub.url

    @property
    def storage_url(self) -> str:
        """Where large files are redirected to."""
        return self._storage.url

    def add(self, repo_id: str, files: dict[str, bytes]) -> FakeRepo:
        """Add a repository."""
        self.repos[repo_id] = FakeRepo(dict(files))
        return self.repos[repo_id]

    def forget(self) -> None:
        """Forget what was asked and served so far."""
        self.log.clear()
        self.requests.clear()
        self.served.clear()

    def take_fault(self, name: str) -> Fault:
        """Return what goes wrong with the next body of a file, and count it."""
        for place, fault in enumerate(self.faults):
            if name.endswith(fault.name):
                if fault.times == 1:
                    del self.faults[place]
                else:
                    self.faults[place] = replace(fault, times=fault.times - 1)
                return fault
        if self.cuts > 0 and name.endswith(LARGE):
            self.cuts -= 1
            return Fault(cut=-1)
        return Fault()

    def __enter__(self) -> FakeHub:
        for server in (self._hub, self._storage):
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        for server in (self._hub, self._storage):
            server.shutdown()
            server.server_close()


def etag(name: str, data: bytes) -> str:
    """Return the name of a file's blob: SHA-256 in LFS, else git's own hash."""
    return hashlib.sha256(data).hexdigest() if name.endswith(LARGE) else git_hash(data)


def git_hash(data: bytes) -> str:
    """Return what git calls a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def commit_of(files: dict[str, bytes]) -> str:
    """Return the hash of a revision with these files."""
    content = sorted((name, hashlib.sha1(data).hexdigest()) for name, data in files.items())
    return hashlib.sha1(repr(content).encode()).hexdigest()


def weights(size: int, seed: int = 1) -> bytes:
    """Return a safetensors file of about so many bytes, which do not repeat."""
    tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = json.dumps({"w": tensor}).encode()
    return len(header).to_bytes(8, "little") + header + random.Random(seed).randbytes(size)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: Callable[..., BaseHTTPRequestHandler],
        *,
        hub: FakeHub,
        on_hub: bool,
    ) -> None:
        super().__init__(address, handler)
        self.hub = hub
        self.on_hub = on_hub

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def fake(self) -> _Server:
        return cast("_Server", self.server)

    @property
    def hub(self) -> FakeHub:
        return self.fake.hub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: `FakeHub.log` keeps the requests."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self._note(path)
        if self.hub.broken:
            self._json({"error": "out of order"}, status=500)
        elif not self._knows_the_token():
            said = {"X-Error-Message": "Invalid credentials in Authorization header"}
            self._json({"error": "who are you"}, status=401, headers=said)
        elif path in self.hub.raw:
            self._plain(self.hub.raw[path])
        elif not self.fake.on_hub:
            self._stored(path)
        elif path == "/api/models":
            self._found()
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path):
            self._model(*match.groups())
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(*match.groups())
        else:
            self._json({"error": path}, status=404)

    def do_HEAD(self) -> None:
        self.do_GET()  # `_answer` keeps the body back

    def _note(self, path: str) -> None:
        self.hub.log.append(f"{self.command} {path}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.requests.append(
            Request(method=self.command, path=path, on_hub=self.fake.on_hub, headers=headers)
        )

    def _token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _knows_the_token(self) -> bool:
        return not self._token() or not self.fake.on_hub or self._token() in self.hub.tokens

    def _repo(self, repo_id: str) -> FakeRepo | None:
        """Return a repository, or answer with the Hub's refusal and return None."""
        repo = self.hub.repos.get(repo_id)
        if repo is None or (repo.private and not self._token()):
            # Whoever shows no token is not told whether there is one.
            status = 404 if self._token() or not self.hub.tokens else 401
            self._json({"error": "Repository not found"}, status=status, code="RepoNotFound")
            return None
        return repo

    def _files(self, repo: FakeRepo, revision: str | None) -> dict[str, bytes] | None:
        files = repo.at(revision)
        if files is None:
            self._json({"error": "Invalid rev id"}, status=404, code="RevisionNotFound")
        return files

    def _found(self) -> None:
        words = parse_qs(urlsplit(self.path).query).get("search", [""])[0]
        found = {name: repo for name, repo in self.hub.repos.items() if words in name}
        self._json([_information(name, repo, "main") for name, repo in found.items()])

    def _model(self, repo_id: str, part: str | None, revision: str | None) -> None:
        repo = self._repo(repo_id)
        files = self._files(repo, revision) if repo else None
        if repo is None or files is None:
            return
        if part == "tree":
            self._tree([_tree_entry(name, data) for name, data in files.items()])
        else:
            self._json(_information(repo_id, repo, revision))

    def _tree(self, entries: list[dict[str, Any]]) -> None:
        query = dict(re.findall(r"(\w+)=(\w+)", urlsplit(self.path).query))
        start, size = int(query.get("cursor", 0)), self.hub.page or len(entries)
        headers = {}
        if start + size < len(entries):
            following = f"{self.hub.url}{urlsplit(self.path).path}?cursor={start + size}"
            headers = {"Link": f'<{following}>; rel="next"'}
        self._json(entries[start : start + size], headers=headers)

    def _file(self, repo_id: str, revision: str, name: str) -> None:
        repo = self._repo(repo_id)
        files = self._files(repo, revision) if repo else None
        if repo is None or files is None:
            return
        commit = {"X-Repo-Commit": commit_of(files)}
        if repo.gated and not self._token():
            self._json({"error": "gated"}, status=401, code="GatedRepo", headers=commit)
        elif name not in files:
            self._json({"error": "no such file"}, status=404, code="EntryNotFound", headers=commit)
        elif name.endswith(LARGE):
            place = f"{self.hub.storage_url}/{repo_id}/{commit['X-Repo-Commit']}/{quote(name)}"
            headers = {
                **commit,
                "Location": place,
                "X-Linked-Etag": f'"{etag(name, files[name])}"',
                "X-Linked-Size": str(len(files[name])),
            }
            self._answer(b"", status=302, length=0, headers=headers)
        else:
            self._content(name, files[name], commit)

    def _stored(self, path: str) -> None:
        repo_id, commit, name = re.fullmatch(r"/([^/]+/[^/]+)/([^/]+)/(.+)", path).groups()  # type: ignore[union-attr]
        self._content(name, (self.hub.repos[repo_id].at(commit) or {})[name], {})

    def _content(self, name: str, data: bytes, headers: dict[str, str]) -> None:
        """Send a file, or what is to go wrong with it."""
        fault = self.hub.take_fault(name) if self.command == "GET" else Fault()
        if fault.status:
            self._json({"error": "fault"}, status=fault.status, headers=fault.headers)
            return
        told = {**headers, "ETag": f'"{etag(name, data)}"', "Accept-Ranges": "bytes"}
        data = data if fault.body is None else fault.body
        if fault.flip is not None:
            data = data[: fault.flip] + bytes([data[fault.flip] ^ 1]) + data[fault.flip + 1 :]
        start, status = 0, 200
        match = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if match and not fault.no_ranges:
            start, status = int(match[1]), 206
            if start >= len(data):
                self._json({"error": "range"}, status=416)
                return
            told["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._body(name, data[start:], status, {**told, **fault.headers}, fault)

    def _body(
        self, name: str, body: bytes, status: int, headers: dict[str, str], fault: Fault
    ) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if fault.endless:
            self.send_header("Connection", "close")
            self.close_connection = True
        elif "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        told_ends = (end for end in (fault.cut, fault.stall) if end is not None)
        ends = [end if end >= 0 else len(body) // 2 for end in told_ends]
        self.hub.sending.add(threading.get_ident())
        try:
            self._send(name, body[: min(ends, default=len(body))])
            while fault.endless:
                self._send(name, body or b"\0")
        finally:
            self.hub.sending.discard(threading.get_ident())
        if fault.stall is not None:
            self.hub.over.wait(60)
        if ends:
            self.close_connection = True

    def _send(self, name: str, body: bytes) -> None:
        paced = self.hub.pace and name.endswith(LARGE)
        for start in range(0, len(body), _PIECE if paced else max(len(body), 1)):
            piece = body[start : start + (_PIECE if paced else len(body))]
            self.wfile.write(piece)
            self.wfile.flush()
            self.hub.served[name] += len(piece)
            if paced:
                time.sleep(self.hub.pace)

    def _plain(self, body: bytes) -> None:
        self._answer(body, status=200, length=len(body), headers={})

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


def _information(repo_id: str, repo: FakeRepo, revision: str | None) -> dict[str, Any]:
    files = repo.at(revision) or {}
    siblings = [
        {"rfilename": name, "size": len(data), "blobId": git_hash(data)}
        for name, data in files.items()
    ]
    return {
        "_id": "0" * 24,
        "id": repo_id,
        "modelId": repo_id,
        "sha": commit_of(files),
        "private": repo.private,
        "gated": "auto" if repo.gated else False,
        "siblings": siblings,
        "tags": ["mlx"],
        "downloads": 1,
        "likes": 0,
    }


def _tree_entry(name: str, data: bytes) -> dict[str, Any]:
    entry = {"type": "file", "path": name, "size": len(data), "oid": git_hash(data)}
    if name.endswith(LARGE):
        entry["lfs"] = {"oid": etag(name, data), "size": len(data), "pointerSize": 130}
    return entry
