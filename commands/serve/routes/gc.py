"""`GET /api/gc/plan` and `POST /api/gc/execute`: superseded snapshots and orphaned blobs, no more.

What `mlxbun gc` tidies up beside these is not shown here, and so it is not deleted here.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields
from commands.serve.wire.api import ApiProblem
from commands.serve.wire.gc import GcDone, GcOrder, GcPlan, done_body, plan_body, plan_name

if TYPE_CHECKING:
    from commands.serve.serving import Serving
    from core.gc.plan import Plan


@get("/api/gc/plan", opt=documented(answer=GcPlan, error=ApiProblem))
async def show_plan(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell what nobody needs in the Hugging Face cache; delete nothing."""
    serving: Serving = request.app.state.serving
    plan = await serving.options.drain.unless_given_up(serving.disk.run(_plan, serving))
    return as_json(plan_body(plan))


@post(
    "/api/gc/execute",
    status_code=200,
    opt=documented(body=GcOrder, answer=GcDone, error=ApiProblem),
)
async def execute_plan(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Delete what a plan that is made now shows; with `plan`, only if it is that one."""
    serving: Serving = request.app.state.serving
    fields = await read_fields(request)
    if fields.get("yes") is not True:
        return problem('pass {"yes": true} to confirm deletion', 400)
    wanted = fields.get("plan")
    if wanted is not None and not isinstance(wanted, str):
        return problem('"plan" must be what GET /api/gc/plan calls it', 400)
    done = await serving.options.drain.unless_given_up(serving.disk.run(_execute, serving, wanted))
    if done is None:
        return problem("The cache has changed since that plan was made: look at it again.", 409)
    serving.shelf.forget()
    return as_json(done)


def _plan(serving: Serving) -> Plan:
    from core.gc.plan import Kind, make_plan
    from core.gc.survey import survey_cache
    from core.gc.wishes import Wishes

    cache = survey_cache(serving.options.paths, _folders(serving))
    plan = make_plan(cache, Wishes(), now=time.time())
    shown = (Kind.SNAPSHOT, Kind.BLOBS)
    return replace(plan, items=tuple(item for item in plan.items if item.kind in shown))


def _execute(serving: Serving, wanted: str | None) -> GcDone | None:
    """Delete what is superseded now, unless another plan is wanted."""
    from core.gc.execute import execute

    plan = _plan(serving)
    if wanted is not None and plan_name(plan) != wanted:
        return None
    return done_body(
        list(execute(plan, paths=serving.options.paths, model_folders=_folders(serving)))
    )


def _folders(serving: Serving) -> tuple[str, ...]:
    """Return the folders of models that are in use; the served one, whatever its file says."""
    served = serving.engine.info.folder
    folders = serving.settings.model_folders
    return folders if served is None else (*folders, str(served.absolute()))
