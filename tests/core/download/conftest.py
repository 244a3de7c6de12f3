"""A hub on loopback, an empty cache, and what fetches from one into the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core.download.choose import Choice
from core.download.events import Event
from core.download.job import DownloadRequest, DownloadResult, download_repository
from core.download.layout import RepoLayout
from core.download.ledger import DownloadRecord, Ledger
from core.download.names import parse_name
from core.download.patience import Patience
from core.paths import Paths
from tests.fakehub import FakeHub, etag, weights

REPO = "org/name"
WEIGHTS = "model.safetensors"
FILES = {
    "README.md": b"# a model\n",
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b'{"version": "1.0"}',
    WEIGHTS: weights(300_000),
    "pytorch_model.bin": bytes(50_000),
}
WANTED = [name for name in FILES if name != "pytorch_model.bin"]
WANTED_BYTES = sum(len(FILES[name]) for name in WANTED)
QUICK = Patience(
    stall_seconds=10.0,
    connect_seconds=10.0,
    tries=4,
    question_tries=2,
    first_wait=0.01,
    longest_wait=0.02,
    longest_wish=0.05,
)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One hub, one cache, and a memory for events."""

    hub: FakeHub
    paths: Paths
    environ: Mapping[str, str]
    events: list[Event] = field(default_factory=list)

    def request(
        self,
        name: str = REPO,
        *,
        include: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        patience: Patience = QUICK,
    ) -> DownloadRequest:
        choice = Choice(include=include, exclude=exclude)
        return DownloadRequest(name=parse_name(name), choice=choice, patience=patience)

    def fetch(
        self,
        name: str = REPO,
        *,
        include: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        patience: Patience = QUICK,
        environ: Mapping[str, str] | None = None,
    ) -> DownloadResult:
        return download_repository(
            self.request(name, include=include, exclude=exclude, patience=patience),
            paths=self.paths,
            environ={**self.environ, **(environ or {})},
            on_event=self.events.append,
        )

    def told(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def layout(self) -> RepoLayout:
        return RepoLayout(hub_cache=self.paths.hub_cache, repo_id=REPO)

    def partial(self, name: str = WEIGHTS) -> Path:
        data = self.hub.repos[REPO].files[name]
        return self.layout.partial(etag(name, data))

    def records(self) -> list[DownloadRecord]:
        return Ledger(self.paths.downloads_file).recent()

    def written(self) -> list[Path]:
        """Return every file in the Hugging Face cache, but for locks and its tag."""
        found = self.paths.hub_cache.rglob("*")
        return [
            path
            for path in found
            if path.is_file() and path.name != "CACHEDIR.TAG" and ".locks" not in path.parts
        ]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the proxies of the machine that runs the tests out."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(home=tmp_path / "home", cache=tmp_path / "cache", hub_cache=tmp_path / "hub")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@pytest.fixture
def desk(hub: FakeHub, paths: Paths, tmp_path: Path) -> Desk:
    hub.add(REPO, FILES)
    return Desk(hub=hub, paths=paths, environ={"HF_ENDPOINT": hub.url, "HOME": str(tmp_path)})
