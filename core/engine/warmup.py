"""A short rehearsal at load, so that no user waits for kernels to be compiled.

On a CPU MLX compiles fused operations with g++ at their first call, about a second each; on a GPU
it builds pipelines. Where the compiler is there but does not work, fusing is turned off.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import mlx.core as mx

from core.engine.request import SamplingParams, ToneCurve
from core.machine.compute import COMPILER_FAILS

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.batch import BatchRunner
    from core.engine.loader import LoadedModel


def warm_up(
    loaded: LoadedModel, make_runner: Callable[[LoadedModel], BatchRunner]
) -> tuple[LoadedModel, BatchRunner]:
    """Run two tiny rows on a new runner; return it, ready and empty, and what is true of the model.

    Raises:
        RuntimeError: the model cannot compute a step.
    """
    runner = make_runner(loaded)
    # On a CPU one kernel serves every length; a GPU has others for prompts, and for padded ones.
    lengths = (1, 1) if loaded.compute.device == "cpu" else (5, 3)
    try:
        _rehearse(runner, lengths)
    except RuntimeError:
        mx.disable_compile()
        runner.reset()
        _rehearse(runner, lengths)
        loaded = _without_compiler(loaded)
    runner.rest()
    mx.reset_peak_memory()
    return loaded, runner


def _without_compiler(loaded: LoadedModel) -> LoadedModel:
    notes = (*loaded.compute.notes, COMPILER_FAILS)
    return replace(loaded, compute=replace(loaded.compute, compiler="none", notes=notes))


def _rehearse(runner: BatchRunner, lengths: tuple[int, ...]) -> None:
    # Every step that a row can ask for: on a GPU each has a kernel of its own.
    curve = ToneCurve(enabled=True, width=4.0, shoulder=4.0, toe=6.0, pivot_offset=6.0)
    sampling = SamplingParams(
        temperature=1.0,
        top_p=0.9,
        top_k=2,
        min_p=0.1,
        xtc_probability=0.5,
        xtc_threshold=0.1,
        repetition_penalty=1.1,
        presence_penalty=0.1,
        frequency_penalty=0.1,
        logit_bias=((0, 0.1),),
        tone_curve=curve,
        seed=0,
    )
    for length in lengths:
        runner.insert([list(range(length))], max_tokens=1, sampling=sampling, logprobs=2)
    while len(runner):
        runner.step(prefill_tokens=8)
