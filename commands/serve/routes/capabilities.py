"""`GET /v1/capabilities`: which features go together here, and how they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response, get

from commands.serve.openapi import documented
from commands.serve.wire.openai.capabilities import CapabilityTable, capability_table
from core.engine.features import facts_of

if TYPE_CHECKING:
    from commands.serve.serving import Serving


@get("/v1/capabilities", opt=documented(answer=CapabilityTable))
async def show_capabilities(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell what can be asked of the served model, alone and together."""
    serving: Serving = request.app.state.serving
    info = serving.engine.info
    table = capability_table(
        info.model_id, batch=serving.engine.stats().batch, facts=facts_of(info)
    )
    return Response(msgspec.json.encode(table), media_type="application/json")
