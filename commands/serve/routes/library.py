"""`GET /library` and `GET /api/hub/local`: the models on this disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json
from commands.serve.wire.api import ApiProblem
from commands.serve.wire.library import (
    Library,
    LocalModels,
    ModelAssessment,
    library_row,
    local_row,
)

if TYPE_CHECKING:
    from commands.serve.serving import Serving
    from commands.serve.verdicts import JudgedModel
    from core.engine.info import ModelInfo


@get("/library", opt=documented(answer=Library, query=("refresh",)))
async def list_library(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the models on this disk, each with whether it fits this machine."""
    serving: Serving = request.app.state.serving
    fresh = request.query_params.get("refresh") == "1"
    models = await serving.options.drain.unless_given_up(serving.shelf.models(fresh=fresh))
    info = serving.engine.info
    return as_json(
        Library(
            models=[
                library_row(model.card, _assessment(model), serving=_is_served(model, info))
                for model in models
            ]
        )
    )


@get("/api/hub/local", opt=documented(answer=LocalModels, error=ApiProblem))
async def list_local(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the models on this disk as they are now, for whoever looks for another one."""
    serving: Serving = request.app.state.serving
    models = await serving.options.drain.unless_given_up(serving.shelf.models(fresh=True))
    return as_json(
        LocalModels(models=[local_row(model.card, _assessment(model)) for model in models])
    )


def _assessment(model: JudgedModel) -> ModelAssessment | None:
    verdict = model.verdict
    if verdict is None:
        return None
    return ModelAssessment(
        fits=verdict.fits,
        max_safe_context=verdict.max_context,
        predicted_decode_tps=verdict.decode,
    )


def _is_served(model: JudgedModel, info: ModelInfo) -> bool:
    return model.card.name == info.model_id or model.card.folder == info.folder
