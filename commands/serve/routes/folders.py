"""`POST /api/model/resolve-folder`, and the same under `/api/quantize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields
from commands.serve.wire.api import ApiProblem
from commands.serve.wire.folders import NOT_LOCATED, PickedFolder, ResolvedFolder, folder_body
from core.errors import BadRequest

if TYPE_CHECKING:
    from commands.serve.serving import Serving
    from core.registry.locate import LocatedFolder


@post(
    ["/api/model/resolve-folder", "/api/quantize/resolve-folder"],
    status_code=200,
    opt=documented(body=PickedFolder, answer=ResolvedFolder, error=ApiProblem),
)
async def resolve_folder(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Turn the name of a folder that was picked in a browser into its path."""
    serving: Serving = request.app.state.serving
    fields = await read_fields(request)
    name, inside = _text(fields, "folder_name"), _text(fields, "rel_path")
    work = serving.disk.run(_locate, serving, name, inside)
    found = await serving.options.drain.unless_given_up(work)
    return as_json(folder_body(found)) if found else problem(NOT_LOCATED, 200)


def _locate(serving: Serving, name: str, inside: str) -> LocatedFolder | None:
    from core.registry.locate import locate_folder

    return locate_folder(name, inside, paths=serving.options.paths, settings=serving.settings)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a text.", field=name)
    return value
