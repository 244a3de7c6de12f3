"""A hub that takes uploads, folders to upload, and what does it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from core.download.patience import Patience
from core.paths import Paths
from core.upload.belongs import Selection
from core.upload.events import Event
from core.upload.job import Pace, UploadResult, upload
from core.upload.plan import UploadPlan, UploadRequest, plan_upload
from core.upload.target import parse_target
from tests.core.upload.hub import UploadHub
from tests.fakehub import weights
from tests.lora import lora_weights

REPO = "me/name"
SECRET = "hf_secretsecretsecret"
QUICK = Pace(
    patience=Patience(
        stall_seconds=10.0,
        connect_seconds=10.0,
        tries=4,
        first_wait=0.01,
        longest_wait=0.02,
        longest_wish=0.05,
    ),
    answer_seconds=10.0,
)
WEIGHTS = weights(300_000)
MODEL: dict[str, bytes] = {
    "config.json": json.dumps(
        {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    ).encode(),
    "tokenizer.json": b'{"version": "1.0"}',
    "model.safetensors": WEIGHTS,
}
ADAPTER_CONFIG: dict[str, Any] = {
    "model": "org/base",
    "fine_tune_type": "lora",
    "num_layers": 8,
    "lora_parameters": {"rank": 8, "scale": 20.0, "dropout": 0.0},
    "data": "org/data",
    "iters": 600,
    "learning_rate": 1e-5,
}


def fill(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a folder and return it."""
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def adapter_files(**changes: Any) -> dict[str, bytes]:
    """Return the files of an adapter as mlx-lm leaves them."""
    config = ADAPTER_CONFIG | changes
    return {
        "adapter_config.json": json.dumps(config).encode(),
        "adapters.safetensors": lora_weights({"model.layers.0.mlp.up_proj": (64, 92)}, rank=8),
    }


@dataclass(frozen=True, kw_only=True)
class Desk:
    """One hub, one folder, and a memory for events."""

    hub: UploadHub
    paths: Paths
    folder: Path
    environ: Mapping[str, str]
    events: list[Event] = field(default_factory=list)

    def plan(
        self,
        *,
        source: Path | None = None,
        to: str = REPO,
        revision: str | None = None,
        include: tuple[str, ...] = (),
        exclude: tuple[str, ...] = (),
        **changes: Any,
    ) -> UploadPlan:
        request = UploadRequest(
            source=source or self.folder,
            target=parse_target(to, revision),
            selection=Selection(include=include, exclude=exclude),
        )
        return plan_upload(replace(request, **changes), hub_cache=self.paths.hub_cache)

    def upload(
        self,
        plan: UploadPlan | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        pace: Pace = QUICK,
        **changes: Any,
    ) -> UploadResult:
        return upload(
            plan or self.plan(**changes),
            paths=self.paths,
            environ={**self.environ, **(environ or {})},
            on_event=self.events.append,
            pace=pace,
        )

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the proxies and tokens of the machine that runs the tests out."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(home=tmp_path / "home", cache=tmp_path / "cache", hub_cache=tmp_path / "hub")


@pytest.fixture
def hub() -> Iterator[UploadHub]:
    with UploadHub() as hub:
        hub.account(SECRET, "me", organizations=("org",))
        yield hub


@pytest.fixture
def desk(hub: UploadHub, paths: Paths, tmp_path: Path) -> Iterator[Desk]:
    folder = fill(tmp_path / "model", MODEL)
    environ = {"HF_ENDPOINT": hub.url, "HOME": str(tmp_path), "HF_TOKEN": SECRET}
    before = {thread.ident for thread in threading.enumerate()}
    yield Desk(hub=hub, paths=paths, folder=folder, environ=environ)
    left = [t.name for t in threading.enumerate() if t.ident not in before and "hash" in t.name]
    assert left == []
