"""The application: routes, failures and the drain around one engine. Holds no module state."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from litestar import Litestar
from litestar.datastructures import State

from commands.serve.failures import handlers
from commands.serve.heads import drop_length, with_heads
from commands.serve.lifespan import CountRequests
from commands.serve.request_ids import add_request_id
from commands.serve.routes import (
    adapters,
    capabilities,
    chat,
    completions,
    downloads,
    finetune,
    fit,
    flush,
    folders,
    gc,
    hub,
    jobs,
    library,
    memory,
    models,
    pages,
    push,
    quantize,
    sessions,
    status,
    token,
)
from commands.serve.routes.api import api_router
from commands.serve.serving import ServeOptions, Serving
from commands.serve.shelf import Shelf, last_made
from commands.serve.verdicts import Verdicts
from commands.serve.workers import Workers

if TYPE_CHECKING:
    from commands.serve.port import ServedEngine
    from core.settings import Settings


_OPEN = (
    chat.chat_completions,
    completions.completions,
    models.list_models,
    models.find_model,
    capabilities.show_capabilities,
    status.api_index,
    status.health,
    status.stats,
    status.openapi,
    status.home,
    library.list_library,
    downloads.list_downloads,
    fit.show_fit,
    adapters.list_mounted,
    adapters.list_available,
    pages.moved,
)
_API = (
    library.list_local,
    hub.search,
    hub.serve_another,
    downloads.start_download,
    gc.show_plan,
    gc.execute_plan,
    token.show_token,
    token.keep_token,
    token.remove_token,
    folders.resolve_folder,
    jobs.list_jobs,
    jobs.find_job,
    jobs.stream_job,
    finetune.submit,
    finetune.inspect_dataset,
    quantize.submit,
    quantize.inspect,
    push.push_model,
    push.push_data,
    sessions.search,
    sessions.export,
    memory.show_status,
    memory.list_articles,
    memory.search,
    memory.show_article,
    memory.show_links,
    memory.show_history,
    memory.show_diff,
    memory.set_up,
    memory.synthesize,
    flush.flush_cache,
)


def create_app(engine: ServedEngine, settings: Settings, options: ServeOptions) -> Litestar:
    """Return the application that answers for `engine`."""
    serving = _serving(engine, settings, options)
    return Litestar(
        route_handlers=[*with_heads(_OPEN), api_router(with_heads(_API))],
        state=State({"serving": serving}, deep_copy=False),
        before_send=[add_request_id, drop_length],
        middleware=[CountRequests(options.drain)],
        exception_handlers=handlers(),
        openapi_config=None,  # ours is commands.serve.openapi
        logging_config=None,
        request_max_body_size=None,  # ours is commands.serve.routes.body
    )


def _serving(engine: ServedEngine, settings: Settings, options: ServeOptions) -> Serving:
    verdicts = Verdicts(
        paths=options.paths,
        settings=settings,
        host=options.host,
        usable_bytes=lambda: engine.stats().memory_budget_bytes,
    )
    disk = Workers()
    return Serving(
        engine=engine,
        settings=settings,
        options=options,
        verdicts=verdicts,
        shelf=Shelf(verdicts.library, disk, mark=partial(last_made, options.paths)),
        disk=disk,
    )
