"""Redirects from the former addresses of pages to their place in the page at `/`."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, get

from commands.serve.openapi import documented

_PAGES = ["/status", "/chat", "/quantize", "/finetune", "/dataset"]


@get(_PAGES, opt=documented(cheap=True, redirect=True))
async def moved(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Redirect to the page."""
    return Response(b"", status_code=302, headers={"location": f"/#{request.scope['path']}"})
