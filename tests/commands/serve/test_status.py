"""The index, health, models, statistics, the page at / and the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from commands.serve.failures import STATUSES
from commands.serve.wire.openai import answers, listing, schema
from commands.serve.wire.status import Stats
from core.engine.request import SamplingParams
from core.errors import MlxbunError
from core.fit.kv import KvShape, LayerKv
from tests.commands.serve.fake_engine import FakeEngine


def test_health_is_byte_exact(client: httpx.Client) -> None:
    answer = client.get("/health")
    assert answer.content == b'{"status": "ok"}'
    assert answer.headers["content-type"] == "application/json"


def test_health_fails_with_the_engine(client: httpx.Client, engine: FakeEngine) -> None:
    engine.alive = False
    answer = client.get("/health")
    assert answer.status_code == 503
    assert "is restarting. Try again" in answer.json()["error"]["message"]
    engine.lost = True
    answer = client.get("/health")
    assert answer.status_code == 503
    assert "Start the server again" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nowhere"),
        ("POST", "/health"),
        ("GET", "/v1/chat/completions"),
        ("PUT", "/v1/completions"),
        ("DELETE", "/v1/models/acme/tiny-1"),
        ("OPTIONS", "/v1/models"),
        ("PATCH", "/"),
        ("GET", "/schema/nothing"),
        ("GET", "/v1/chat"),
        ("GET", "/%ff%00"),
    ],
)
def test_unknown_paths_and_wrong_methods(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 404
    assert answer.content == b'{"error":{"message":"not found"}}'


def test_the_index(client: httpx.Client) -> None:
    index = client.get("/v1").json()
    assert (index["name"], index["version"], index["model"]) == ("mlxbun", "0.0.0", "acme/tiny-1")
    for endpoint in index["endpoints"]:
        method, path = endpoint.split()
        assert client.request(method, path, content=b"{").status_code != 404


def test_the_served_model_is_listed_with_its_capabilities(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    row, *others = listed["data"]
    assert others == [
        {"id": "acme/other", "object": "model", "created": 1760000000, "vision": False,
         "tier": "generic", "owned_by": "mlxbun", "serving": False},
        {"id": "acme/seeing", "object": "model", "created": 1760000000, "vision": True,
         "tier": "generic", "owned_by": "mlxbun", "serving": False},
    ]  # fmt: skip
    assert row["id"] == "acme/tiny-1"
    assert row["object"] == "model"
    assert row["owned_by"] == "mlxbun"
    assert row["context_window"] == 2048
    assert row["serving"] is True
    assert row["gen_defaults"] == {"temperature": None, "top_p": None, "top_k": None}
    able = {name for name, can in row["capabilities"].items() if can}
    assert able == {
        "chat_completions",
        "text_completions",
        "streaming",
        "tools",
        "structured_output",
        "logprobs",
    }
    assert row["reasoning"] is row["tools"] is row["structured_output"] is True


def test_forms_that_are_not_enforced_are_no_capability(
    client: httpx.Client, engine: FakeEngine
) -> None:
    engine.forms = False
    row = client.get("/v1/models").json()["data"][0]
    assert row["structured_output"] is row["capabilities"]["structured_output"] is False


@pytest.mark.parametrize("path", ["acme/tiny-1", "acme%2Ftiny-1", "acme%2ftiny%2D1"])
def test_a_model_is_a_list_and_itself_at_once(client: httpx.Client, path: str) -> None:
    found = client.get(f"/v1/models/{path}").json()
    assert found["object"] == "list"
    assert found["id"] == "acme/tiny-1"
    assert found["data"] == client.get("/v1/models").json()["data"][:1]


def test_another_model_of_the_cache_can_be_found_too(client: httpx.Client) -> None:
    found = client.get("/v1/models/acme/other").json()
    assert (found["object"], found["id"], found["tier"]) == ("list", "acme/other", "generic")


@pytest.mark.parametrize(
    "path", ["acme", "tiny-1", "acme/tiny-1/x", "%00", "..%2f", "%ff", "%ed%a0%80", "x" * 5000]
)
def test_an_unknown_model_is_unknown(client: httpx.Client, path: str) -> None:
    answer = client.get(f"/v1/models/{path}")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error.pop("message").endswith("does not exist.")
    assert error == {"type": "invalid_request_error", "param": "model", "code": "model_not_found"}
    assert len(answer.content) < 1000


def test_the_defaults_that_somebody_chose(client: httpx.Client, engine: FakeEngine) -> None:
    engine.chosen = SamplingParams(top_p=0.95, top_k=0)
    (row,) = client.get("/v1/models/acme/tiny-1").json()["data"]
    assert row["gen_defaults"] == {"temperature": None, "top_p": 0.95, "top_k": 0}


@pytest.mark.parametrize("trainable", [True, False, None])
def test_whether_the_model_can_be_trained(
    client: httpx.Client, engine: FakeEngine, trainable: bool | None
) -> None:
    engine.trainable = trainable
    row = client.get("/v1/models").json()["data"][0]
    assert row["training"] is row["capabilities"]["training"] is bool(trainable)


def test_stats_are_what_the_engine_says(client: httpx.Client) -> None:
    stats = client.get("/stats").json()
    msgspec.convert(stats, Stats)
    assert stats["server"] == {
        "owner": "serve",
        "model": "acme/tiny-1",
        "loaded": True,
        "started_at": 1_760_000_000_500,
    }
    assert stats["admission"] == {
        "max_safe_context": 2048,
        "memory_budget_bytes": None,
        "usable_bytes": 10000,
        "weights_bytes": 4000,
    }
    assert stats["batch"]["mode"] == "batch"
    assert stats["batch"]["kv_budget_bytes"] == 6000
    assert stats["compute"]["weights"] == "float32 (unpacked)"
    assert stats["response_store"] == {
        "entries": 0,
        "bytes": 0,
        "max_bytes": 33554432,
        "ttl_ms": 3600000,
    }


def test_stats_tell_how_layers_attend(client: httpx.Client, engine: FakeEngine) -> None:
    layers = [LayerKv(bytes_per_token=8), *[LayerKv(bytes_per_token=8, window=64)] * 3]
    engine.kv = KvShape(layers=(*layers, LayerKv(constant_bytes=100)))
    assert client.get("/stats").json()["kv_quant"] == {
        "mode": "bf16",
        "layers": {"bf16": 4},
        "attention": {"global": 1, "sliding_window": 3},
    }


def test_stats_tell_the_kv_budget(client: httpx.Client, engine: FakeEngine) -> None:
    engine.kv_budget_bytes = 1234
    assert client.get("/stats").json()["batch"]["kv_budget_bytes"] == 1234


def test_the_front_page(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "/schema/openapi.json" in page.text
    assert "http" not in page.text  # nothing foreign is loaded
    head = client.head("/")
    assert (head.status_code, head.content) == (200, b"")


def _resolve(document: dict[str, Any], node: Any) -> set[str]:
    """Return every `$ref` below a node."""
    if isinstance(node, dict):
        found = {node["$ref"]} if "$ref" in node else set()
        return found.union(*(_resolve(document, value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(_resolve(document, value) for value in node))
    return set()


def test_the_openapi_document_is_true(client: httpx.Client) -> None:
    answer = client.get("/schema/openapi.json")
    document = answer.json()
    assert client.get("/schema").json() == document
    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    for reference in _resolve(document, document):
        assert reference.removeprefix("#/components/schemas/") in schemas
    chat = document["paths"]["/v1/chat/completions"]["post"]
    assert chat["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/ChatRequest"
    }
    assert set(schemas["ChatRequest"]["properties"]) == set(schema.ChatRequest.__struct_fields__)
    assert "text/event-stream" in chat["responses"]["200"]["content"]
    assert set(document["paths"]) == {
        "/",
        "/admin/cache/flush",
        "/api/dataset/push",
        "/api/finetune/inspect-dataset",
        "/api/finetune/push",
        "/api/finetune/submit",
        "/api/gc/execute",
        "/api/gc/plan",
        "/api/hub/download",
        "/api/hub/local",
        "/api/hub/search",
        "/api/hub/serve",
        "/api/jobs",
        "/api/jobs/{job_id}",
        "/api/jobs/{job_id}/stream",
        "/api/memory/article",
        "/api/memory/diff",
        "/api/memory/history",
        "/api/memory/init",
        "/api/memory/links",
        "/api/memory/list",
        "/api/memory/search",
        "/api/memory/status",
        "/api/model/resolve-folder",
        "/api/quantize/inspect",
        "/api/quantize/push",
        "/api/quantize/resolve-folder",
        "/api/quantize/submit",
        "/api/sessions/export",
        "/api/sessions/search",
        "/api/settings/hf-token",
        "/chat",
        "/dataset",
        "/downloads",
        "/finetune",
        "/fit",
        "/health",
        "/library",
        "/quantize",
        "/stats",
        "/status",
        "/v1",
        "/v1/adapters",
        "/v1/adapters/available",
        "/v1/capabilities",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/memory/synthesize",
        "/v1/models",
        "/v1/models/{model_id}",
    }
    assert "http" not in json.dumps(document["paths"])


def test_the_document_tells_of_queries_and_of_the_errors_under_api(client: httpx.Client) -> None:
    paths = client.get("/schema/openapi.json").json()["paths"]
    search = paths["/api/hub/search"]["get"]
    assert search["parameters"] == [
        {"name": "q", "in": "query", "required": True, "schema": {"type": "string"}}
    ]
    error = search["responses"]["4XX"]["content"]["application/json"]["schema"]
    assert error == {"$ref": "#/components/schemas/ApiProblem"}
    assert paths["/library"]["get"]["parameters"][0]["required"] is False
    assert set(paths["/api/settings/hf-token"]) == {"get", "post", "delete"}


def test_answers_are_what_the_document_says(client: httpx.Client) -> None:
    whole = client.post(
        "/v1/chat/completions", content='{"messages":[{"role":"user","content":""}]}'
    )
    msgspec.json.decode(whole.content, type=answers.ChatCompletion)
    msgspec.json.decode(client.get("/v1/models").content, type=listing.ModelList)
    refused = client.post("/v1/chat/completions", content="{")
    msgspec.json.decode(refused.content, type=schema.ErrorBody)


def _tree(kind: type[MlxbunError]) -> set[type[MlxbunError]]:
    return {kind}.union(*(_tree(child) for child in kind.__subclasses__()))


def test_every_error_has_a_status() -> None:
    assert set(STATUSES) == _tree(MlxbunError)
