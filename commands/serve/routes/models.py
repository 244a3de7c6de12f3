"""`GET /v1/models` and `GET /v1/models/<id>`; an id may hold a slash, quoted or not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath

from commands.serve.openapi import documented
from commands.serve.wire.openai.capabilities import supported
from commands.serve.wire.openai.listing import (
    Capabilities,
    FoundModel,
    GenerationDefaults,
    ModelList,
    ModelRow,
    unknown_model,
)
from core.engine.features import Feature, batch_mode, facts_of

if TYPE_CHECKING:
    from commands.serve.serving import Serving


@get("/v1/models", opt=documented(answer=ModelList))
async def list_models(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the models; the served one comes first."""
    return _json(ModelList(data=await _rows(request.app.state.serving)))


@get("/v1/models/{model_id:path}", opt=documented(answer=FoundModel))
async def find_model(request: Request[Any, Any, Any], model_id: FromPath[str]) -> Response[bytes]:
    """List the one model of that id."""
    wanted = model_id.removeprefix("/")
    found = [row for row in await _rows(request.app.state.serving) if row.id == wanted]
    if not found:
        return Response(unknown_model(wanted), status_code=404, media_type="application/json")
    # The list is the protocol's; the row's fields beside it are what SDKs read as a bare model.
    fields = {**msgspec.structs.asdict(found[0]), "object": "list"}
    return _json(FoundModel(**fields, data=found))


async def _rows(serving: Serving) -> list[ModelRow]:
    served = served_model(serving)
    others = await serving.workers.run(serving.options.other_models)
    created = int(serving.options.started_at)
    return [
        served,
        *(
            ModelRow(id=name, created=created, vision=vision, tier="generic")
            for name, vision in others.items()
            if name != served.id
        ),
    ]


def served_model(serving: Serving) -> ModelRow:
    """Return the row of the model in memory, with what can be asked of it here and now."""
    info, chosen = serving.engine.info, serving.engine.info.chosen_defaults
    can = partial(supported, batch=serving.settings.batch, facts=facts_of(info))
    return ModelRow(
        id=info.model_id,
        created=int(serving.options.started_at),
        serving=True,
        context_window=info.context_window,
        batch_mode=batch_mode(info, batch=serving.settings.batch),
        gen_defaults=GenerationDefaults(
            temperature=chosen.temperature, top_p=chosen.top_p, top_k=chosen.top_k
        ),
        capabilities=Capabilities(
            chat_completions=can(Feature.CHAT),
            tools=can(Feature.TOOLS),
            structured_output=info.forms and can(Feature.STRUCTURED_OUTPUT),
            logprobs=can(Feature.LOGPROBS),
            vision=can(Feature.MEDIA),
            audio=can(Feature.MEDIA),
            adapters=can(Feature.ADAPTER),
            training=bool(info.trainable),
        ),
        reasoning=info.reasoning and can(Feature.THINKING),
        audio=can(Feature.MEDIA),
        tools=can(Feature.TOOLS),
        structured_output=info.forms and can(Feature.STRUCTURED_OUTPUT),
        embeddings=False,
        adapters=can(Feature.ADAPTER),
        training=bool(info.trainable),
        mtp=False,
    )


def _json(value: msgspec.Struct) -> Response[bytes]:
    return Response(msgspec.json.encode(value), media_type="application/json")
