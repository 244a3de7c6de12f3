"""`POST /admin/cache/flush`."""

from __future__ import annotations

from litestar import Response, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json
from commands.serve.wire.api import ApiProblem
from commands.serve.wire.flush import Flushed


@post("/admin/cache/flush", status_code=200, opt=documented(answer=Flushed, error=ApiProblem))
async def flush_cache() -> Response[bytes]:
    """Write the prompt cache to disk. Without an SSD cache there is nothing to write."""
    return as_json(Flushed())
