"""The OpenAPI document, made from the routes themselves and from the wire's structs.

Litestar would write one too, but only of bodies that it parses itself; ours are read with our own
limits and decoded with our own words. A route brings its types along in `documented(...)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from litestar.handlers import HTTPRouteHandler

from commands.serve.wire.openai.schema import ErrorBody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from litestar.routes import BaseRoute

_KEY = "document"


@dataclass(frozen=True, kw_only=True)
class Documented:
    """What a route takes and gives."""

    body: type[msgspec.Struct] | None = None
    """What it takes, or None."""
    answer: type[msgspec.Struct] | None = None
    """The JSON it gives, or None for a page, or for events alone."""
    event: type[msgspec.Struct] | None = None
    """The event it gives when asked to stream, or None."""
    error: type[msgspec.Struct] = ErrorBody
    """The JSON it gives when something is wrong."""
    query: tuple[str, ...] = ()
    """The parameters behind the question mark; a needed one ends with `!`."""
    cheap: bool = False
    """Whether HEAD runs it: its status is what matters, and it takes no work."""
    redirect: bool = False
    """Whether it gives the address of another page."""


def documented(
    *,
    body: type[msgspec.Struct] | None = None,
    answer: type[msgspec.Struct] | None = None,
    event: type[msgspec.Struct] | None = None,
    error: type[msgspec.Struct] = ErrorBody,
    query: tuple[str, ...] = (),
    cheap: bool = False,
    redirect: bool = False,
) -> dict[str, Any]:
    """Return a handler's `opt` that puts it into the document."""
    return {
        _KEY: Documented(
            body=body,
            answer=answer,
            event=event,
            error=error,
            query=query,
            cheap=cheap,
            redirect=redirect,
        )
    }


def is_cheap(handler: HTTPRouteHandler) -> bool:
    """Return whether HEAD is to run a handler."""
    spec: Documented | None = handler.opt.get(_KEY)
    return spec is not None and spec.cheap


def media_type_of(handler: HTTPRouteHandler) -> str:
    """Return the content type of what a handler gives; one that is not documented gives JSON."""
    spec: Documented | None = handler.opt.get(_KEY)
    if spec is None or spec.answer:
        return "application/json"
    return "text/event-stream" if spec.event else "text/html"  # Litestar adds the charset


def build_document(routes: Sequence[BaseRoute], *, version: str) -> bytes:
    """Return the OpenAPI 3.1 document of the routes that are documented."""
    operations = list(_operations(routes))
    types: list[Any] = []
    for _, _, handler in operations:
        spec: Documented = handler.opt[_KEY]
        types += [kind for kind in (spec.body, spec.answer, spec.event, spec.error) if kind]
    _, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for path, method, handler in operations:
        paths.setdefault(path, {})[method] = _operation(path, handler)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "mlxbun", "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _operations(routes: Sequence[BaseRoute]) -> Any:
    for route in routes:
        for handler in getattr(route, "route_handlers", ()):
            if isinstance(handler, HTTPRouteHandler) and _KEY in handler.opt:
                for method in sorted(handler.http_methods):
                    yield route.path_format or "/", method.lower(), handler


def _operation(path: str, handler: HTTPRouteHandler) -> dict[str, Any]:
    spec: Documented = handler.opt[_KEY]
    operation: dict[str, Any] = {
        "operationId": handler.handler_name,
        "summary": (handler.fn.__doc__ or "").partition("\n")[0],
        "responses": {**_success(spec), "4XX": _error(spec), "5XX": _error(spec)},
    }
    parameters = [_parameter(name, "query") for name in spec.query]
    if "{" in path:
        parameters.append(_parameter(path[path.index("{") + 1 : path.index("}")] + "!", "path"))
    if parameters:
        operation["parameters"] = parameters
    if spec.body:
        content = {"application/json": {"schema": _reference(spec.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _success(spec: Documented) -> dict[str, Any]:
    if spec.redirect:
        return {"302": {"description": "Where the page is now."}}
    return {"200": _answer(spec)}


def _answer(spec: Documented) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if spec.answer:
        content["application/json"] = {"schema": _reference(spec.answer)}
    elif not spec.event:
        content["text/html"] = {"schema": {"type": "string"}}
    if spec.event:
        content["text/event-stream"] = {"schema": _reference(spec.event)}
    return {"description": "The answer.", "content": content}


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {
        "name": name.removesuffix("!"),
        "in": place,
        "required": name.endswith("!"),
        "schema": {"type": "string"},
    }


def _error(spec: Documented) -> dict[str, Any]:
    content = {"application/json": {"schema": _reference(spec.error)}}
    return {"description": "What went wrong.", "content": content}


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
