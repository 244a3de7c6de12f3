"""A name means a model here before one on the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import BadModelFiles, DownloadFailed, NotFound
from core.fit.candidate import Candidate, find_candidate
from core.paths import Paths
from tests.caches import add_model, safetensors
from tests.fakehub import FakeHub, commit_of
from tests.tiny import llama_config, make_model

REPO = "acme/Fox-1B"
FILES = {
    "config.json": json.dumps(llama_config()).encode(),
    "model.safetensors": safetensors(
        {f"model.layers.{n}.mlp.up_proj.weight": ("F32", (8, 8)) for n in range(2)}
    ),
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(home=tmp_path / "home", cache=tmp_path / "cache", hub_cache=tmp_path / "hub")


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        hub.add(REPO, FILES)
        yield hub


def find(name: str, paths: Paths, hub: FakeHub, *, remote: bool = False, **more: str) -> Candidate:
    environ = {"HOME": str(paths.home), "HF_ENDPOINT": hub.url, **more}
    return find_candidate(name, paths=paths, environ=environ, remote=remote)


def test_a_model_here_asks_nobody(paths: Paths, hub: FakeHub) -> None:
    snapshot = add_model(
        paths.hub_cache,
        REPO,
        config=FILES["config.json"],
        weights={"model.safetensors": FILES["model.safetensors"]},
    )
    found = find(REPO, paths, hub)
    assert (found.folder, found.revision) == (snapshot, snapshot.name)
    assert find("fox", paths, hub).model_id == REPO
    assert not hub.log


def test_with_remote_the_hub_is_asked(paths: Paths, hub: FakeHub) -> None:
    found = find(REPO, paths, hub, remote=True)
    assert (found.model_id, found.folder, found.revision) == (REPO, None, commit_of(FILES))
    assert found.weights.parameters == 2 * 64


def test_what_is_not_here_is_looked_up(paths: Paths, hub: FakeHub) -> None:
    assert find(REPO, paths, hub).folder is None
    assert find(f"{REPO}@main", paths, hub).model_id == f"{REPO}@main"


def test_a_folder_is_itself(paths: Paths, hub: FakeHub, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "mine" / "tiny")
    found = find(str(folder), paths, hub)
    assert (found.model_id, found.folder) == ("tiny", folder)
    assert found.revision.startswith("files-")
    assert not hub.log


@pytest.mark.parametrize("name", ["fox", "./nowhere/at/all"])
def test_a_name_that_is_no_repository_is_not_looked_up(
    name: str, paths: Paths, hub: FakeHub
) -> None:
    with pytest.raises(NotFound):
        find(name, paths, hub)
    assert not hub.log


def test_offline_only_what_is_here_is_found(paths: Paths, hub: FakeHub) -> None:
    for remote in (False, True):
        with pytest.raises(DownloadFailed, match="HF_HUB_OFFLINE is set"):
            find(REPO, paths, hub, remote=remote, HF_HUB_OFFLINE="1")
    with pytest.raises(NotFound):
        find("fox", paths, hub, HF_HUB_OFFLINE="1")
    assert not hub.log


def test_a_missing_starter_is_told(paths: Paths, hub: FakeHub) -> None:
    with pytest.raises(NotFound, match="starter") as caught:
        find("starter", paths, hub)
    assert "mlxbun download starter" in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"[]", b"{", b"[" * 100_000, b"\xff\xfe"])
def test_a_config_that_is_none_is_told(
    content: bytes, paths: Paths, hub: FakeHub, tmp_path: Path
) -> None:
    folder = make_model(tmp_path / "tiny")
    (folder / "config.json").write_bytes(content)
    with pytest.raises(BadModelFiles):
        find(str(folder), paths, hub)
