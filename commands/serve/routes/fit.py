"""`GET /fit`: how the served model fits this machine and every Mac."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json
from commands.serve.wire.fit import Fit, fit_body

if TYPE_CHECKING:
    from commands.serve.serving import Serving


@get("/fit", opt=documented(answer=Fit))
async def show_fit(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell what the served model takes here, how fast it would be, and the same on every Mac."""
    serving: Serving = request.app.state.serving
    engine = serving.engine
    work = serving.disk.run(
        serving.verdicts.served, engine.info, context=engine.stats().max_context
    )
    found = await serving.options.drain.unless_given_up(work)
    return as_json(fit_body(found.longest, found.usual, found.macs))
