"""A model on the Hub is known by its config and its headers; nothing else of it is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from core.errors import BadModelFiles, DownloadFailed, MlxbunError, NotFound, UsageProblem
from core.fit.remote import RemoteModel, is_repo_id, look_at
from core.hf_token import HubToken
from tests.caches import safetensors
from tests.fakehub import FakeHub, Fault, commit_of
from tests.tiny import llama_config

REPO = "acme/Fox-1B"
CONFIG = json.dumps(llama_config()).encode()
EMBEDDING = {"model.embed_tokens.weight": ("F32", (259, 64))}
SHARDS = {
    "config.json": CONFIG,
    "model-00001-of-00002.safetensors": safetensors(EMBEDDING),
    "model-00002-of-00002.safetensors": safetensors({"model.norm.weight": ("F32", (64,))}),
    "model.safetensors.index.json": b"{}",
    "tokenizer.json": b"{}",
}
HUGE = 30_000_000  # bytes; far beyond what is read ahead


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


def look(
    hub: FakeHub, name: str = REPO, *, token: str | None = None, **environ: str
) -> RemoteModel:
    given = HubToken(value=token, source="a test") if token else None
    return look_at(name, environ={"HF_ENDPOINT": hub.url, **environ}, token=given)


def test_all_shards_are_read_by_their_headers(hub: FakeHub) -> None:
    hub.add(REPO, SHARDS)
    found = look(hub)
    assert (found.repo_id, found.commit) == (REPO, commit_of(SHARDS))
    assert found.config["num_hidden_layers"] == 2
    assert {tensor.name for tensor in found.tensors} == {*EMBEDDING, "model.norm.weight"}
    assert {name for name in hub.served if not name.startswith("model-")} == {"config.json"}


def test_only_the_header_of_a_large_file_is_read(hub: FakeHub) -> None:
    hub.add(
        REPO, {"config.json": CONFIG, "model.safetensors": safetensors(EMBEDDING, padding=HUGE)}
    )
    found = look(hub)
    assert sum(tensor.nbytes for tensor in found.tensors) > HUGE
    asked = [request.headers.get("range") for request in hub.requests if not request.on_hub]
    assert asked == ["bytes=0-131071"]


@pytest.mark.parametrize(
    "fault", [Fault(name=".safetensors", no_ranges=True), Fault(name=".safetensors", endless=True)]
)
def test_a_hub_that_ignores_ranges_is_hung_up_on(hub: FakeHub, fault: Fault) -> None:
    hub.add(
        REPO, {"config.json": CONFIG, "model.safetensors": safetensors(EMBEDDING, padding=HUGE)}
    )
    hub.faults.append(fault)
    hub.pace = 0.002  # a network, not a pipe: what is under way when we hang up stays small
    assert look(hub).tensors
    assert hub.served["model.safetensors"] < HUGE / 3


def test_a_long_header_is_read_whole(hub: FakeHub) -> None:
    many: dict[str, tuple[str, tuple[int, ...]]] = {
        f"model.layers.{n}.self_attn.q_proj.weight": ("F16", (4, 4)) for n in range(3000)
    }
    hub.add(REPO, {"config.json": CONFIG, "model.safetensors": safetensors(many)})
    assert len(look(hub).tensors) == 3000


def test_a_revision_is_asked_for(hub: FakeHub) -> None:
    repo = hub.add(REPO, SHARDS)
    other = {**SHARDS, "config.json": json.dumps(llama_config(num_hidden_layers=1)).encode()}
    repo.revisions["old/way"] = other
    found = look(hub, f"{REPO}@old/way")
    assert (found.commit, found.config["num_hidden_layers"]) == (commit_of(other), 1)
    with pytest.raises(NotFound, match="no such revision"):
        look(hub, f"{REPO}@nowhere")


def test_the_token_stays_with_the_hub(hub: FakeHub) -> None:
    hub.add(REPO, SHARDS).private = True
    hub.tokens.add("hf_secret")
    with pytest.raises(NotFound, match="or it is private"):
        look(hub)
    assert look(hub, token="hf_secret").tensors
    elsewhere = [request for request in hub.requests if not request.on_hub]
    assert elsewhere
    assert all("authorization" not in request.headers for request in elsewhere)
    assert any(request.headers.get("authorization") for request in hub.requests if request.on_hub)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("file:///etc/passwd", "in circles"),
        ("gopher://127.0.0.1/", "in circles"),
        ("http://127.0.0.1:9/gone", "cannot be asked"),
        ("http://[::bad/", "cannot be asked"),
    ],
)
def test_redirects_to_nowhere_are_told(hub: FakeHub, place: str, told: str) -> None:
    hub.add(REPO, SHARDS)
    hub.faults.append(Fault(name="config.json", status=302, headers={"Location": place}))
    with pytest.raises(DownloadFailed, match=told):
        look(hub)


def test_a_circle_of_redirects_ends(hub: FakeHub) -> None:
    hub.add(REPO, SHARDS)
    circle = {"Location": f"{hub.url}/{REPO}/resolve/main/config.json"}
    hub.faults.append(Fault(name="config.json", status=302, headers=circle, times=50))
    with pytest.raises(DownloadFailed, match="in circles"):
        look(hub)
    assert len(hub.log) < 10


def test_a_gated_model_is_told_apart(hub: FakeHub) -> None:
    hub.add(REPO, SHARDS).gated = True
    with pytest.raises(DownloadFailed, match="is gated") as caught:
        look(hub)
    assert "HF_TOKEN" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"config.json": CONFIG}, "no safetensors weights"),
        ({"config.json": CONFIG, "model.gguf": b"GGUF"}, "no safetensors weights"),
        ({"model.safetensors": safetensors(EMBEDDING)}, r"has no config\.json"),
        ({**SHARDS, "config.json": b"not JSON"}, r"config\.json of .* is no JSON object"),
        ({**SHARDS, "config.json": b"[" * 100_000}, r"config\.json of .* is no JSON object"),
        ({**SHARDS, "config.json": b"[1]"}, r"config\.json of .* is no JSON object"),
    ],
)
def test_what_is_no_model_is_told(hub: FakeHub, files: dict[str, bytes], told: str) -> None:
    hub.add(REPO, files)
    with pytest.raises(BadModelFiles, match=told):
        look(hub)


def broken_header(content: Any) -> bytes:
    text = json.dumps(content).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "weights",
    [
        b"",
        b"abc",
        (2 * 10**9).to_bytes(8, "little") + b"{",  # a header of 2 GB
        (2**64 - 1).to_bytes(8, "little") + b"{",
        (500).to_bytes(8, "little") + b"{}",  # one that is cut short
        b"\x02\0\0\0\0\0\0\0[]",
        b"\x03\0\0\0\0\0\0\0{a}",
        broken_header({"w": 5}),
        broken_header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}),
        broken_header({"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}),
        broken_header({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}),
        broken_header({"w": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]}}),
    ],
)
def test_broken_weights_are_told(hub: FakeHub, weights: bytes) -> None:
    hub.add(REPO, {"config.json": CONFIG, "model.safetensors": weights})
    with pytest.raises(BadModelFiles, match="is broken"):
        look(hub)
    assert hub.served["model.safetensors"] < 10_000


@pytest.mark.parametrize(("status", "told"), [(500, "status 500"), (429, "status 429")])
def test_a_hub_that_fails_is_told(hub: FakeHub, status: int, told: str) -> None:
    hub.add(REPO, SHARDS)
    hub.faults.append(Fault(name="config.json", status=status, times=9))
    with pytest.raises(DownloadFailed, match=told):
        look(hub)


def test_a_connection_that_is_cut_is_told(hub: FakeHub) -> None:
    hub.add(REPO, SHARDS)
    hub.faults.append(Fault(name="config.json", cut=10, times=9))
    with pytest.raises(DownloadFailed, match="cannot be asked"):
        look(hub)


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "MLXBUN_OFFLINE"])
def test_offline_means_not_asking(hub: FakeHub, switch: str) -> None:
    hub.add(REPO, SHARDS)
    with pytest.raises(DownloadFailed, match=f"{switch} is set"):
        look(hub, **{switch: "1"})
    assert not hub.log


@pytest.mark.parametrize("endpoint", ["ftp://example.com", "nonsense", "http://127.0.0.1:1"])
def test_an_endpoint_that_is_none_is_told(endpoint: str) -> None:
    with pytest.raises(MlxbunError) as caught:
        look_at(REPO, environ={"HF_ENDPOINT": endpoint}, token=None)
    assert isinstance(caught.value, UsageProblem | DownloadFailed)
    assert caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "../../etc",
        "a/../b",
        "fox",
        "a/b/c",
        "a/b@",
        "a/b@../x y",
        "a/\x1b[2J",
        "a--b/c",
        "/etc",
        "a/b?x",
    ],
)
def test_names_that_are_no_repositories(name: str) -> None:
    assert not is_repo_id(name)
    with pytest.raises(UsageProblem, match="is no repository"):
        look_at(name, environ={}, token=None)


@pytest.mark.parametrize(
    "name", ["a/b", "mlx-community/Qwen3-0.6B-4bit", "a/b@main", "a/b@refs/pr/1"]
)
def test_names_that_can_be(name: str) -> None:
    assert is_repo_id(name)


def test_names_of_files_that_lead_elsewhere_are_left_out(hub: FakeHub) -> None:
    hub.add(REPO, SHARDS)
    told = {"sha": "x" * 40, "siblings": [{"rfilename": "../model.safetensors"}, 5, {"a": 1}]}
    hub.raw[f"/api/models/{REPO}/revision/main"] = json.dumps(told).encode()
    with pytest.raises(BadModelFiles, match="no safetensors weights"):
        look(hub)
