"""A scripted engine: real `Generation`s, no model. Each request takes the next script."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.engine.cache.store import PromptCacheStats
from core.engine.events import Finished, FinishReason, Position, TextDelta, Timing, Usage
from core.engine.generation import Generation
from core.engine.info import ComputeInfo, EngineStats, ModelInfo, MountedAdapter
from core.engine.parsing import Piece
from core.engine.request import GenerationRequest, SamplingParams
from core.errors import EngineStopped, MlxbunError
from core.fit.batching import Batching
from core.fit.kv import KvShape


@dataclass(kw_only=True)
class Script:
    """What one answer does."""

    pieces: tuple[str | Piece, ...] = ("Hello", ", ", "world")
    """Texts, and other events."""
    delay: float = 0.0
    """Seconds before each piece."""
    prefill: float = 0.0
    """Seconds before the first."""
    reason: FinishReason = "stop"
    error: MlxbunError | None = None
    """Ends the answer after the pieces, instead of `Finished`."""
    refuse: Exception | None = None
    """Raised by `submit`."""
    endless: bool = False
    """Repeat the pieces until cancelled."""
    warnings: tuple[str, ...] = ()
    logprobs: tuple[Position, ...] | None = None
    reasoning_tokens: int = 0
    timing: Timing | None = None
    repairs: tuple[str, ...] = ()


@dataclass
class FakeEngine:
    """Answers by a script."""

    script: Script = field(default_factory=Script)
    choose: Callable[[GenerationRequest], Script] | None = None
    model_id: str = "acme/tiny-1"
    folder: Path | None = None
    budget_bytes: int = 10_000
    alive: bool = True
    lost: bool = False
    batch: int = 8
    vocabulary_size: int | None = 259
    able: bool = True
    """Whether the model knows tools and reasons."""
    adapter: str | None = None
    """On the model, by its name."""
    mounted: MountedAdapter | None = None
    """The same in memory."""
    trainable: bool | None = None
    """Whether the model can be trained."""
    chosen: SamplingParams = field(default_factory=SamplingParams)
    """What its authors recommend."""
    kv: KvShape | None = None
    """Of its layers."""
    kv_budget_bytes: int | None = None
    """Of `--kv-budget`."""
    forms: bool = True
    """Whether forms are enforced."""
    batching: Batching = field(default_factory=lambda: Batching(mode="padded"))
    """How rows run together on the model."""

    def __post_init__(self) -> None:
        self.requests: list[GenerationRequest] = []
        self.generations: list[Generation] = []
        self.closed = False

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            model_id=self.model_id,
            model_type="llama",
            context_window=2048,
            parameters=1000,
            quantization="4-bit (group 32)",
            loaded_as="float32 (unpacked)",
            weights_bytes=4000,
            has_chat_template=True,
            defaults=SamplingParams(temperature=0.7, top_p=0.0, top_k=0, min_p=0.0),
            folder=self.folder,
            vocabulary_size=self.vocabulary_size,
            adapter=self.adapter,
            mounted=self.mounted,
            trainable=self.trainable,
            chosen_defaults=self.chosen,
            kv=self.kv,
            tools=self.able,
            reasoning=self.able,
            forms=self.forms,
            batching=self.batching,
        )

    @property
    def compute(self) -> ComputeInfo:
        return ComputeInfo(device="cpu", blas="OpenBLAS", compiler="none", notes=("A note.",))

    @property
    def running(self) -> int:
        """Answers that were not cancelled. The server cancels each at its end."""
        return sum(not generation.cancelled for generation in self.generations)

    def submit(self, request: GenerationRequest) -> Generation:
        return self.submit_choices(request)[0]

    def submit_choices(self, request: GenerationRequest) -> list[Generation]:
        return [self._submit(request) for _ in range(request.choices)]

    def submit_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [one for request in requests for one in self.submit_choices(request)]

    def _submit(self, request: GenerationRequest) -> Generation:
        script = self.choose(request) if self.choose else self.script
        if self.closed:
            raise EngineStopped("The engine has stopped.")
        if script.refuse:
            raise script.refuse
        generation = Generation(prompt_tokens=7, warnings=script.warnings)
        self.requests.append(request)
        self.generations.append(generation)
        threading.Thread(target=_play, args=(script, generation), daemon=True).start()
        return generation

    def stats(self) -> EngineStats:
        return EngineStats(
            batch=self.batch,
            loaded=True,
            active_rows=self.running,
            waiting_rows=0,
            submitted_rows=len(self.requests),
            finished_rows=0,
            cancelled_rows=0,
            failed_rows=0,
            kv_bytes=10,
            prompt_tokens=7,
            generated_tokens=3,
            memory_bytes=5000,
            memory_peak_bytes=6000,
            memory_cache_bytes=100,
            memory_budget_bytes=self.budget_bytes,
            max_context=2048,
            kv_budget_bytes=self.kv_budget_bytes,
            prompt_cache=PromptCacheStats(
                entries=1, nbytes=20, max_bytes=40, hits=2, misses=3, hit_tokens=4
            ),
        )

    def close(self) -> None:
        self.closed = True


def _play(script: Script, generation: Generation) -> None:
    time.sleep(script.prefill)
    count = 0
    positions = list(script.logprobs or ())
    while not generation.cancelled:
        for piece in script.pieces:
            if positions:
                generation.put(positions.pop(0))
            time.sleep(script.delay)
            generation.put(TextDelta(text=piece) if isinstance(piece, str) else piece)
            count += 1
        if not script.endless:
            break
    if script.error:
        generation.fail(script.error)
        return
    for position in positions:
        generation.put(position)
    usage = Usage(
        prompt_tokens=7,
        completion_tokens=count + 1,
        cached_tokens=2,
        lane="batched",
        prefill_seconds=0.0,
        decode_seconds=0.0,
        reasoning_tokens=script.reasoning_tokens,
        timing=script.timing,
        repairs=script.repairs,
    )
    generation.put(Finished(reason=script.reason, usage=usage, logprobs=script.logprobs))
