"""A Hub that takes uploads: the routes that huggingface_hub writes through, and what goes wrong.

with UploadHub() as hub:
    hub.account("hf_token", "me", organizations=("org",))
    ... HF_ENDPOINT=hub.url HF_TOKEN=hf_token ...
    assert hub.files("me/name")["config.json"] == b"{}"
    assert hub.received_bytes == 300_000
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.fakehub import LARGE, FakeHub, FakeRepo, _Handler, _Server, commit_of, git_hash

_PIECE = 2**14


@dataclass(frozen=True, kw_only=True)
class Account:
    """Whom a token belongs to."""

    name: str
    organizations: tuple[str, ...] = ()
    role: str = "write"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What is answered in place of the right thing."""

    path: str
    """A part of the path."""
    method: str = "POST"
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"error": "no"}'
    times: int = 1
    lost: bool = False
    """The right thing is done, but the connection closes before the answer."""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """What goes wrong with the body of an object that is sent to the storage."""

    times: int = 1
    cut: int | None = None
    """Bytes until the connection closes."""
    stall: int | None = None
    """Bytes until no more are taken."""


@dataclass(frozen=True, kw_only=True)
class Committed:
    """One commit."""

    repo_id: str
    branch: str
    message: str
    names: tuple[str, ...]


class UploadHub(FakeHub):
    """A hub that takes uploads; data sets are kept as `datasets:org/name`.

    Attributes:
        accounts: by token.
        refusals: answers in place of the right ones; the first that fits is taken.
        broken: what goes wrong with bodies of objects.
        objects: the contents of large files, by SHA-256.
        received: bytes of bodies of objects that were read, by SHA-256.
        wrong: objects that came with another content than their name.
        commits: in order.
        part_bytes: size of the parts in which objects are sent; 0: whole.
        knows_private: whether it makes private repositories when it is told to.
        verify: whether objects have to be verified after they have come.
        verify_elsewhere: whether the storage does that, and not the hub.
        slow: seconds between two pieces of an object.
        ignored: files that the repositories' .gitignore leaves out.
    """

    def __init__(self) -> None:
        super().__init__()
        for server in (self._hub, self._storage):
            server.server_close()
        self._hub = _Server(("127.0.0.1", 0), UploadHandler, hub=self, on_hub=True)
        self._storage = _Server(("127.0.0.1", 0), UploadHandler, hub=self, on_hub=False)
        self.accounts: dict[str, Account] = {}
        self.refusals: list[Refusal] = []
        self.broken_bodies: list[Broken] = []
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.received: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.commits: list[Committed] = []
        self.part_bytes = 0
        self.knows_private = True
        self.verify = False
        self.verify_elsewhere = False
        self.slow = 0.0
        self.ignored: set[str] = set()
        self.lock = threading.Lock()

    def __enter__(self) -> UploadHub:
        super().__enter__()
        return self

    def account(
        self, token: str, name: str, *, organizations: tuple[str, ...] = (), role: str = "write"
    ) -> None:
        """Let a token in."""
        self.accounts[token] = Account(name=name, organizations=organizations, role=role)
        self.tokens.add(token)

    def files(self, repo_id: str, branch: str = "main") -> dict[str, bytes]:
        """Return what a branch holds."""
        return self.repos[repo_id].at(branch) or {}

    @property
    def received_bytes(self) -> int:
        """Bytes of bodies of objects that were read."""
        return self.received.total()

    def take_refusal(self, method: str, path: str) -> Refusal | None:
        """Return what is answered in place of the right thing, and count it."""
        with self.lock:
            for place, one in enumerate(self.refusals):
                if one.path in path and one.method == method:
                    _count(self.refusals, place, one)
                    return one
        return None

    def take_broken(self) -> Broken:
        """Return what goes wrong with the next body, and count it."""
        with self.lock:
            if not self.broken_bodies:
                return Broken()
            one = self.broken_bodies[0]
            _count(self.broken_bodies, 0, one)
            return one


def _count(faults: list[Any], place: int, one: Any) -> None:
    if one.times == 1:
        del faults[place]
    else:
        faults[place] = replace(one, times=one.times - 1)


class UploadHandler(_Handler):
    """The routes beyond those of downloads."""

    disable_nagle_algorithm = True  # headers and body are written one after the other

    @property
    def hub(self) -> UploadHub:
        assert isinstance(self.fake.hub, UploadHub)
        return self.fake.hub

    def do_GET(self) -> None:  # noqa: N802 - the server's name
        path = unquote(urlsplit(self.path).path)
        refusal = self.hub.take_refusal("GET", path)
        if refusal is not None:
            self._note(path)
            self._refuse(refusal)
            return
        told = self._about_people(path)
        if told is not None and self._knows_the_token():
            self._note(path)
            self._json(told[1], status=told[0])
            return
        self.path = self.path.replace("/api/datasets/", "/api/models/datasets:")
        if self.path.startswith("/datasets/"):
            self.path = self.path.replace("/datasets/", "/datasets:", 1)
        super().do_GET()

    def do_PUT(self) -> None:  # noqa: N802
        path = urlsplit(self.path).path
        self._note(path)
        refusal = self.hub.take_refusal("PUT", path)
        if refusal is not None:
            self.close_connection = True
            self._refuse(refusal)
            return
        match = re.fullmatch(r"/(object|part)/([0-9a-f]{64})(?:/(\d+))?", path)
        assert match, path
        body = self._object_body(match[2])
        if body is None:
            return
        if match[1] == "part":
            self.hub.parts.setdefault(match[2], {})[int(match[3])] = body
            self._answer(b"", status=200, length=0, headers={"ETag": f'"{len(body)}"'})
            return
        self._keep(match[2], body)
        self._answer(b"", status=200, length=0, headers={})

    def do_POST(self) -> None:  # noqa: N802
        path = unquote(urlsplit(self.path).path)
        self._note(path)
        data = self._body_bytes()
        refusal = self.hub.take_refusal("POST", path)
        if refusal is not None and not refusal.lost:
            self._refuse(refusal)
            return
        self._lost = refusal is not None
        self._post(path.replace("/api/datasets/", "/api/models/datasets:"), data)

    def _post(self, path: str, data: bytes) -> None:
        if path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif match := re.fullmatch(r"/complete/([0-9a-f]{64})", path):  # the library shows no token
            parts = self.hub.parts.pop(match[1])
            self._keep(match[1], b"".join(parts[number] for number in sorted(parts)))
            self._json({})
        elif path == "/verify":
            told = json.loads(data)
            known = len(self.hub.objects.get(told["oid"], b"")) == told["size"]
            self._json({}, status=200 if known else 404)
        elif self._account() is None:
            said = {"X-Error-Message": "Invalid credentials in Authorization header"}
            self._json({"error": "who are you"}, status=401, headers=said)
        elif path == "/api/repos/create":
            self._create(json.loads(data))
        elif match := re.fullmatch(
            r"/(?:datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", path
        ):
            self._batch(json.loads(data))
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(\w+)/(.+)", path):
            self._write(match[1], match[2], match[3], data)
        else:
            self._json({"error": path}, status=404)

    def _write(self, repo_id: str, what: str, revision: str, data: bytes) -> None:
        repo = self._repo(repo_id)
        if repo is None:
            return
        if not self._may_write(repo_id):
            said = {"X-Error-Message": "You do not have write access"}
            self._json({"error": "no"}, status=403, headers=said)
        elif what == "branch":
            known = repo.at(revision) is not None
            repo.revisions.setdefault(revision, dict(repo.files))
            self._json({}, status=409 if known else 200)
        elif repo.at(revision) is None:
            self._json({"error": "Invalid rev id"}, status=404, code="RevisionNotFound")
        elif what == "preupload":
            self._preupload(repo.at(revision) or {}, json.loads(data))
        elif what == "commit":
            self._commit(repo_id, repo, revision, data)
        else:
            self._json({"error": what}, status=404)

    def _create(self, told: dict[str, Any]) -> None:
        account = self._account()
        assert account is not None
        namespace = told.get("organization") or account.name
        repo_id = f"{namespace}/{told['name']}"
        key = f"datasets:{repo_id}" if told.get("type") == "dataset" else repo_id
        if not self._may_write(key):
            words = (
                f'You don\'t have the rights to create a model under the namespace "{namespace}"'
            )
            self._json({"error": words}, status=403, headers={"X-Error-Message": words})
        elif key in self.hub.repos:
            self._json({"error": "exists", "url": f"{self.hub.url}/{repo_id}"}, status=409)
        else:
            files = {".gitattributes": b"*.safetensors filter=lfs\n"}
            private = told.get("visibility") == "private" and self.hub.knows_private
            self.hub.add(key, files).private = private
            self._json({"url": f"{self.hub.url}/{repo_id}", "name": repo_id, "id": repo_id})

    def _preupload(self, there: dict[str, bytes], told: dict[str, Any]) -> None:
        files = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["path"].endswith(LARGE) else "regular",
                "shouldIgnore": one["path"] in self.hub.ignored,
                "oid": _oid(one["path"], there.get(one["path"])),
            }
            for one in told["files"]
        ]
        self._json({"files": files})

    def _batch(self, told: dict[str, Any]) -> None:
        objects = [{**one, **self._actions(one["oid"], one["size"])} for one in told["objects"]]
        self._json({"transfer": "basic", "objects": objects})

    def _actions(self, oid: str, size: int) -> dict[str, Any]:
        if oid in self.hub.objects:
            return {}
        storage = self.hub.storage_url
        upload: dict[str, Any] = {"href": f"{storage}/object/{oid}?signature=secret"}
        if self.hub.part_bytes:
            count = -(-size // self.hub.part_bytes)
            parts = {str(n): f"{storage}/part/{oid}/{n}" for n in range(1, count + 1)}
            header = {"chunk_size": str(self.hub.part_bytes), **parts}
            upload = {"href": f"{self.hub.url}/complete/{oid}", "header": header}
        actions = {"upload": upload}
        if self.hub.verify:
            place = storage if self.hub.verify_elsewhere else self.hub.url
            actions["verify"] = {"href": f"{place}/verify"}
        return {"actions": actions}

    def _commit(self, repo_id: str, repo: FakeRepo, branch: str, data: bytes) -> None:
        files = repo.files if branch == "main" else repo.revisions[branch]
        lines = [json.loads(line) for line in data.splitlines()]
        names = []
        for line in lines[1:]:
            value = line["value"]
            names.append(value["path"])
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                assert line["key"] == "lfsFile", line
                files[value["path"]] = self.hub.objects[value["oid"]]
        message = lines[0]["value"]["summary"]
        made = Committed(repo_id=repo_id, branch=branch, message=message, names=tuple(names))
        self.hub.commits.append(made)
        sha = commit_of(files)
        if self._lost:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        page = repo_id.replace("datasets:", "datasets/")
        url = f"{self.hub.url}/{page}/commit/{sha}"
        self._json({"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})

    def _about_people(self, path: str) -> tuple[int, dict[str, Any]] | None:
        """Return status and answer for a question about accounts; None: it is another one."""
        if path == "/api/whoami-v2":
            account = self._account()
            if account is None:
                return 401, {"error": "Invalid credentials in Authorization header"}
            orgs = [{"type": "org", "name": one, "fullname": one} for one in account.organizations]
            token = {"displayName": "t", "role": account.role}
            told = {"type": "user", "name": account.name, "orgs": orgs}
            return 200, {**told, "auth": {"type": "access_token", "accessToken": token}}
        if match := re.fullmatch(r"/api/(organizations|users)/([^/]+)/overview", path):
            people = {account.name for account in self.hub.accounts.values()}
            orgs_ = {one for account in self.hub.accounts.values() for one in account.organizations}
            known = match[2] in (people if match[1] == "users" else orgs_)
            told = {"name": match[2], "user": match[2], "fullname": match[2], "avatarUrl": ""}
            return (200, told) if known else (404, {"error": "not found"})
        return None

    def _account(self) -> Account | None:
        return self.hub.accounts.get(self._token())

    def _may_write(self, key: str) -> bool:
        account = self._account()
        if account is None or account.role == "read":
            return False
        namespace = key.removeprefix("datasets:").partition("/")[0]
        return namespace in (account.name, *account.organizations)

    def _keep(self, oid: str, body: bytes) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            self.hub.wrong.append(oid)
        self.hub.objects[oid] = body

    def _object_body(self, oid: str) -> bytes | None:
        """Read the body of an object; None: something was to go wrong with it."""
        fault = self.hub.take_broken()
        end = fault.cut if fault.cut is not None else fault.stall
        left, body = int(self.headers["Content-Length"]), bytearray()
        while left:
            want = min(_PIECE, left) if end is None else min(_PIECE, left, end - len(body))
            if want == 0:
                break
            piece = self.rfile.read(want)
            with self.hub.lock:
                self.hub.received[oid] += len(piece)
            if not piece:
                self.close_connection = True
                return None
            body += piece
            left -= len(piece)
            if self.hub.slow:
                time.sleep(self.hub.slow)
        if end is None:
            return bytes(body)
        if fault.stall is not None:
            self.hub.over.wait(60)
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)
        return None

    def _body_bytes(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _refuse(self, refusal: Refusal) -> None:
        told = {"Content-Type": "application/json", **refusal.headers}
        self._answer(refusal.body, status=refusal.status, length=len(refusal.body), headers=told)


def _oid(name: str, data: bytes | None) -> str | None:
    if data is None:
        return None
    return hashlib.sha256(data).hexdigest() if name.endswith(LARGE) else git_hash(data)
