"""What serve needs of an engine. `core.engine.engine.Engine` has it; tests bring a scripted one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.generation import Generation
    from core.engine.info import ComputeInfo, EngineStats, ModelInfo
    from core.engine.request import GenerationRequest


class ServedEngine(Protocol):
    """One model that answers requests."""

    @property
    def info(self) -> ModelInfo:
        """The model in memory."""
        ...

    @property
    def compute(self) -> ComputeInfo:
        """How it computes."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it can answer now."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it will never answer again."""
        ...

    def submit(self, request: GenerationRequest) -> Generation:
        """Accept a request. Renders and tokenizes in the caller's thread."""
        ...

    def submit_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Accept requests, all or none; return one answer for each choice of each."""
        ...

    def stats(self) -> EngineStats:
        """Return the counters of this moment."""
        ...

    def close(self) -> None:
        """End it; unfinished answers fail."""
        ...
