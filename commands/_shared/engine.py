"""Opening an engine for a command: what is fetched and noted on the way is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.engine.engine import Engine
    from core.engine.start import Opening
    from core.settings import Settings


def open_shown(
    model: str | None,
    *,
    settings: Settings,
    session: Session,
    console: Console,
    opening: Opening | None = None,
) -> Engine:
    """Return the running engine of the model that is meant.

    Args:
        model: what the user called it, or None.
        settings: the merged settings.
        session: the command's.
        console: shows what is fetched and noted.
        opening: what else the command needs; None: nothing.

    Raises:
        MlxbunError: as `core.engine.start.open_engine`.
    """
    from core.engine.start import open_engine

    with console.progress() as on_progress:
        return open_engine(
            model,
            settings=settings,
            paths=session.paths,
            environ=session.environ,
            on_progress=on_progress,
            on_note=console.note,
            opening=opening,
        )
