"""The one model that is in memory, and how it is changed for another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from commands.chat.interrupts import end_program
from core.engine.start import open_engine
from core.errors import EngineStopped, MlxbunError, UsageProblem
from core.registry.cache import list_models
from core.registry.resolve import resolve_model

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from commands.chat.interrupts import Interrupts
    from core.engine.engine import Engine
    from core.settings import Settings


class Models:
    """Holds at most one engine.

    Attributes:
        name: how to open this model again: a repo id, or a folder.
    """

    def __init__(self, session: Session, settings: Settings, console: Console) -> None:
        self.name = ""
        self._session = session
        self._settings = settings
        self._console = console
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The model in memory.

        Raises:
            EngineStopped: there is none.
        """
        if self._engine is None or not self._engine.alive:
            raise EngineStopped(
                "There is no model in memory any more.", hint="`mlxbun chat --continue` goes on."
            )
        return self._engine

    @property
    def lost(self) -> bool:
        """Whether nobody can answer any more."""
        return self._engine is None or not self._engine.alive

    def open(self, name: str | None) -> None:
        """Load a model that can chat; None: the setting, the cache's only one, or the starter.

        Raises:
            MlxbunError: as `open_engine`; UsageProblem for a model without a chat template.
        """
        wanted = name or self._settings.model
        lasting = self._lasting_name(wanted) if wanted and wanted != "starter" else None
        with self._console.progress() as on_progress:
            engine = open_engine(
                name,
                settings=self._settings,
                paths=self._session.paths,
                environ=self._session.environ,
                on_progress=on_progress,
                on_note=self._console.note,
            )
        if not engine.info.has_chat_template:
            engine.close()
            raise UsageProblem(
                f"{engine.info.model_id} has no chat template, so it cannot chat.",
                hint="`mlxbun generate --raw` continues a text with it.",
            )
        self._engine = engine
        self.name = lasting or engine.info.model_id

    def change(self, name: str, interrupts: Interrupts) -> None:
        """Load another model in place of this one; when that fails, this one again.

        Raises:
            MlxbunError: the other cannot be loaded. `lost` tells if this one could not be, either.
        """
        if name != "starter":
            self._lasting_name(name)  # refuses a wrong name while this model is still there
        before = self.name
        with interrupts.calling(end_program):
            self.close()
            try:
                self.open(name)
            except MlxbunError:
                self._console.note(f"{name} cannot be loaded; loading {before} again.")
                self.open(before)
                raise

    def known(self) -> list[str]:
        """Return the names of the models that the cache holds."""
        models = list_models(self._session.paths.hub_cache)
        return [model.repo_id for model in models if model.problem is None]

    def close(self) -> None:
        """Let go of the model. Safe to call twice."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _lasting_name(self, name: str) -> str:
        """Return the repo id that a name stands for, or the whole path of a folder."""
        hub_cache = self._session.paths.hub_cache
        found = resolve_model(name, hub_cache=hub_cache)
        folder = Path(found.folder)
        in_cache = folder.is_relative_to(hub_cache)
        return found.model_id if in_cache else str(folder)
