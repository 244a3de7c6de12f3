"""`GET /v1`, `/health`, `/stats`, the OpenAPI document and the page at `/`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import MediaType, Request, Response, get

from commands.serve.openapi import build_document, documented
from commands.serve.wire import status
from core.engine.features import batch_mode
from core.errors import EngineStopped
from core.units import GB

if TYPE_CHECKING:
    from commands.serve.serving import Serving
    from core.engine.info import EngineStats, ModelInfo
    from core.fit.kv import KvShape

_ENDPOINTS = [
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "GET /v1/models",
    "GET /v1/capabilities",
    "GET /v1/adapters",
    "GET /health",
    "GET /stats",
    "GET /fit",
    "GET /library",
    "GET /downloads",
    "GET /schema/openapi.json",
]

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>mlxbun</title></head>
<body>
<h1>mlxbun</h1>
<p>Serving <b>{model}</b> with an OpenAI-compatible API at <code>/v1</code>.</p>
<ul>
{links}
</ul>
</body>
</html>
"""


@get("/v1", opt=documented(answer=status.ApiIndex))
async def api_index(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell what can be asked for here."""
    serving: Serving = request.app.state.serving
    return _json(
        status.ApiIndex(
            version=serving.options.version,
            model=serving.engine.info.model_id,
            endpoints=_ENDPOINTS,
        )
    )


@get("/health", opt=documented(answer=status.Health, cheap=True))
async def health(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell whether the engine can answer."""
    serving: Serving = request.app.state.serving
    if serving.engine.lost:
        raise EngineStopped("The engine has stopped.", hint="Start the server again.")
    if not serving.engine.alive:
        raise EngineStopped("The engine is restarting.", hint="Try again in a moment.")
    # Byte for byte what clients of the protocol compare with, space included.
    return Response(b'{"status": "ok"}', media_type="application/json")


@get("/stats", opt=documented(answer=status.Stats))
async def stats(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell what the server holds and has done."""
    serving: Serving = request.app.state.serving
    engine, now = serving.engine, serving.engine.stats()
    info, compute = engine.info, engine.compute
    return _json(
        status.Stats(
            model=info.model_id,
            server=status.ServerStats(
                model=info.model_id,
                loaded=now.loaded,
                started_at=int(serving.options.started_at * 1000),
            ),
            compute=status.ComputeStats(
                device=compute.device,
                blas=compute.blas,
                compiler=compute.compiler,
                weights=info.loaded_as,
                notes=[*compute.notes, *info.notes],
            ),
            prompt_cache=_prompt_cache(now),
            response_store=status.ResponseStoreStats(),
            kv_quant=_kv_quant(info.kv),
            admission=_admission(serving, now),
            batch=_batch(now, info),
            memory=status.MemoryStats(
                active_bytes=now.memory_bytes,
                peak_bytes=now.memory_peak_bytes,
                cache_bytes=now.memory_cache_bytes,
            ),
            requests=_requests(now),
        )
    )


@get(["/schema", "/schema/openapi.json"])
async def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Describe the API."""
    app = request.app
    document = build_document(app.routes, version=app.state.serving.options.version)
    return Response(document, media_type="application/json")


@get("/", opt=documented())
async def home(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Point a browser to the API."""
    model = escape(request.app.state.serving.engine.info.model_id)
    paths = [endpoint.removeprefix("GET ") for endpoint in _ENDPOINTS if endpoint[:3] == "GET"]
    links = "\n".join(f'<li><a href="{path}">{path}</a></li>' for path in ("/v1", *paths))
    page = _PAGE.format(model=model, links=links)
    return Response(page.encode(), media_type=MediaType.HTML)


def _admission(serving: Serving, now: EngineStats) -> status.AdmissionStats:
    budget = serving.settings.memory_budget
    return status.AdmissionStats(
        max_safe_context=now.max_context,
        memory_budget_bytes=None if budget is None else int(budget * GB),
        usable_bytes=now.memory_budget_bytes,
        weights_bytes=serving.engine.info.weights_bytes,
    )


def _kv_quant(kv: KvShape | None) -> status.KvQuantStats:
    attending = [layer for layer in (kv.layers if kv else ()) if layer.bytes_per_token]
    sliding = sum(layer.window is not None for layer in attending)
    return status.KvQuantStats(
        layers={"bf16": len(attending)},
        attention=status.AttentionStats(global_=len(attending) - sliding, sliding_window=sliding),
    )


def _batch(now: EngineStats, info: ModelInfo) -> status.BatchStats:
    mode = batch_mode(info, batch=now.batch)
    return status.BatchStats(
        configured=now.batch,
        mode=mode,
        batched=mode == "batch",
        prompts="together" if info.batching.mode == "padded" else "one by one",
        reason=info.batching.reason,
        active_rows=now.active_rows,
        pending_rows=now.waiting_rows,
        submitted_rows=now.submitted_rows,
        kv_bytes=now.kv_bytes,
        kv_budget_bytes=_kv_budget(now, info.weights_bytes),
    )


def _kv_budget(now: EngineStats, weights_bytes: int) -> int:
    if now.kv_budget_bytes is not None:
        return now.kv_budget_bytes
    return max(0, now.memory_budget_bytes - weights_bytes)


def _prompt_cache(now: EngineStats) -> status.PromptCacheStats:
    cache = now.prompt_cache
    return status.PromptCacheStats(
        entries=cache.entries,
        bytes=cache.nbytes,
        max_bytes=cache.max_bytes,
        hits=cache.hits,
        misses=cache.misses,
        hit_tokens=cache.hit_tokens,
    )


def _requests(now: EngineStats) -> status.RequestStats:
    return status.RequestStats(
        submitted=now.submitted_rows,
        active=now.active_rows,
        waiting=now.waiting_rows,
        finished=now.finished_rows,
        cancelled=now.cancelled_rows,
        failed=now.failed_rows,
        prompt_tokens=now.prompt_tokens,
        generated_tokens=now.generated_tokens,
    )


def _json(value: msgspec.Struct) -> Response[bytes]:
    return Response(msgspec.json.encode(value), media_type="application/json")
