"""The application: routes, failures and the drain around one engine. Holds no module state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Litestar
from litestar.datastructures import State

from commands.serve.failures import handlers
from commands.serve.lifespan import CountRequests
from commands.serve.routes import chat, completions, models, status
from commands.serve.serving import ServeOptions, Serving

if TYPE_CHECKING:
    from commands.serve.port import ServedEngine
    from core.settings import Settings


def create_app(engine: ServedEngine, settings: Settings, options: ServeOptions) -> Litestar:
    """Return the application that answers for `engine`."""
    serving = Serving(engine=engine, settings=settings, options=options)
    return Litestar(
        route_handlers=[
            chat.chat_completions,
            completions.completions,
            models.list_models,
            models.find_model,
            status.api_index,
            status.health,
            status.stats,
            status.openapi,
            status.home,
            status.home_head,
        ],
        state=State({"serving": serving}, deep_copy=False),
        middleware=[CountRequests(options.drain)],
        exception_handlers=handlers(),
        openapi_config=None,  # ours is commands.serve.openapi
        logging_config=None,
        request_max_body_size=None,  # ours is commands.serve.routes.body
    )
