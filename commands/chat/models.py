"""The one model that is in memory, and how it is changed for another."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Literal, cast

from commands.chat.interrupts import end_program
from core.engine.adapters import find_sound_adapter
from core.engine.start import Opening, find_model, fitting_adapter, start_engine
from core.errors import EngineStopped, MlxbunError
from core.machine.compute import prepare_compute
from core.registry.library import usable_models

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from commands.chat.interrupts import Interrupts
    from core.engine.engine import Engine
    from core.registry.resolve import ModelRef
    from core.settings import Settings


class Models:
    """Holds at most one engine.

    Attributes:
        name: how to open this model again: a repo id, or a folder.
    """

    def __init__(self, session: Session, settings: Settings, console: Console) -> None:
        """Decide how to compute; that is done once in a process, before the first model.

        Raises:
            MlxbunError: BackendMissing, UsageProblem for a BLAS that cannot be used, or an adapter
                that is not there or broken.
        """
        find_sound_adapter(settings.adapter, cache=session.paths.cache)  # before a model is fetched
        self.name = ""
        self._session = session
        self._settings = settings
        self._console = console
        self._engine: Engine | None = None
        self._plan = prepare_compute(
            blas=settings.blas,
            dequantize=cast(Literal["auto", "on", "off"], settings.dequantize),
            cache=session.paths.cache,
            environ=session.environ,
        )

    @property
    def engine(self) -> Engine:
        """The model in memory.

        Raises:
            EngineStopped: there is none.
        """
        if self._engine is None or self._engine.lost:
            raise EngineStopped(
                "There is no model in memory any more.", hint="`mlxbun chat --continue` goes on."
            )
        return self._engine

    @property
    def lost(self) -> bool:
        """Whether nobody can answer any more."""
        return self._engine is None or self._engine.lost

    def open(self, name: str | None) -> None:
        """Load a model; None: the setting, the cache's only one, or the starter, fetched.

        Raises:
            MlxbunError: it is not there, does not fit, cannot be loaded or cannot chat.
        """
        self._load(self._find(name or self._settings.model))

    def change(self, name: str, interrupts: Interrupts) -> None:
        """Load another model in place of this one; when that fails, this one again.

        Raises:
            MlxbunError: the other cannot be loaded. `lost` tells if this one could not be, either.
        """
        before = self.name
        with interrupts.calling(end_program):
            # A wrong name or an adapter that does not fit is refused while this model is there.
            found = self._find(name)
            fitting_adapter(self._settings.adapter, found, cache=self._session.paths.cache)
            self.close()
            if failure := self._failure_of(found):
                self._console.note(f"{name} cannot be loaded; loading {before} again.")
                self.open(before)
                raise failure

    def known(self) -> list[str]:
        """Return the names of the models that are on this disk and run."""
        return list(usable_models(self._session.paths, self._settings))

    def close(self) -> None:
        """Let go of the model. Safe to call twice."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
            # An engine is a ring of objects: its weights would stay beside those of the next.
            gc.collect()

    def _find(self, name: str | None) -> ModelRef:
        with self._console.progress() as on_progress:
            return find_model(
                name,
                plan=self._plan,
                settings=self._settings,
                paths=self._session.paths,
                environ=self._session.environ,
                on_progress=on_progress,
                on_note=self._console.note,
            )

    def _load(self, model: ModelRef) -> None:
        engine = start_engine(
            model,
            plan=self._plan,
            settings=self._settings,
            cache=self._session.paths.cache,
            on_note=self._console.note,
            opening=Opening(chats=True),
        )
        self._engine = engine
        in_cache = model.folder.is_relative_to(self._session.paths.hub_cache)
        by_name = in_cache and model.model_id in self.known()
        self.name = model.model_id if by_name else str(model.folder)

    def _failure_of(self, model: ModelRef) -> MlxbunError | None:
        """Load a model; return why it cannot be, free of the frames that still hold its weights."""
        try:
            self._load(model)
        except MlxbunError as problem:
            problem.__cause__ = problem.__context__ = None
            failure = problem.with_traceback(None)
        else:
            return None
        gc.collect()
        return failure
