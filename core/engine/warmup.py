"""A short rehearsal at load, so that requests do not wait for kernels to be compiled.

On a CPU MLX compiles fused operations with g++ at their first call, about a second each; on a GPU
it builds pipelines. Where the compiler is there but does not work, fusing is turned off. A model
that is loaded for the first time is also tried in a batch (`trial.py`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import mlx.core as mx

from core.engine.request import SamplingParams, ToneCurve
from core.engine.trial import SAMPLE, is_passing, one_line, try_batching
from core.errors import BadModelFiles, EngineFailed, MlxbunError
from core.fit.batching import Batching
from core.machine.compute import COMPILER_FAILS

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.batch import BatchRunner
    from core.engine.loader import LoadedModel
    from core.fit.batching import BatchingShelf, BatchMode

    MakeRunner = Callable[[LoadedModel, BatchMode], BatchRunner]

_Result = TypeVar("_Result")


def warm_up(
    loaded: LoadedModel,
    make_runner: MakeRunner,
    *,
    batch: int,
    shelf: BatchingShelf | None = None,
) -> tuple[LoadedModel, BatchRunner]:
    """Run two tiny rows on a new runner; return it, ready and empty, and what is true of the model.

    Args:
        loaded: the model.
        make_runner: makes a runner that runs rows in the given way.
        batch: rows that may run together; 1: nothing is tried, every row runs alone.
        shelf: where verdicts on models are kept; None: the model is tried every time.

    Raises:
        BadModelFiles: the model cannot compute a token.
        EngineFailed: there is no memory for it, or the device failed.
    """
    _leave_busy_cores(loaded)
    try:
        loaded, runner, batching = _prepare(loaded, make_runner, batch, shelf)
    except MlxbunError:
        raise
    # Foreign code on a model of which nothing is known: whatever it raises, it does not run.
    except Exception as problem:
        raise _blame(loaded, problem) from problem
    runner.rest()
    mx.reset_peak_memory()
    return replace(loaded, info=replace(loaded.info, batching=batching)), runner


def _leave_busy_cores(loaded: LoadedModel) -> None:
    """Use as many BLAS threads as cores were free while the weights were read."""
    if loaded.threads and (count := loaded.threads.wanted(stale=math.inf)):
        loaded.threads.apply(count)


def _prepare(
    loaded: LoadedModel, make_runner: MakeRunner, batch: int, shelf: BatchingShelf | None
) -> tuple[LoadedModel, BatchRunner, Batching]:
    loaded, batching = _judge(loaded, batch, shelf)
    if batching.mode != "serial":
        try:
            return *_rehearsed(loaded, make_runner, batching.mode), batching
        # The stored verdict is wrong: the files or the machine changed in a way that its key
        # does not show, or the device fails now.
        except Exception as problem:
            mx.clear_cache()
            batching = Batching(mode="serial", reason=_why_not(loaded, problem))
    return *_rehearsed(loaded, make_runner, "serial"), batching


def _judge(
    loaded: LoadedModel, batch: int, shelf: BatchingShelf | None
) -> tuple[LoadedModel, Batching]:
    """Return how rows are to run: as one row does, as is known of the model, or as a trial says."""
    if batch == 1:
        return loaded, Batching(mode="serial")
    if known := _find(loaded, shelf):
        return loaded, known
    return _uncompiled_if_need_be(lambda: _try(loaded, shelf), loaded)


def _find(loaded: LoadedModel, shelf: BatchingShelf | None) -> Batching | None:
    """Return what is known of the model.

    An adapter makes no difference: it adds to projections of each token, and touches neither caches
    nor masks nor positions.
    """
    folder = loaded.info.folder
    return shelf.find(folder, loaded.compute.device) if shelf and folder else None


def _try(loaded: LoadedModel, shelf: BatchingShelf | None) -> Batching:
    """Try the model in a batch, and keep the verdict, unless the device is to blame for it."""
    vocabulary = loaded.info.vocabulary_size or 1
    sample = loaded.tokenizer.encode(SAMPLE, special=False)
    tokens = [token for token in sample if token < vocabulary] or [0]
    try:
        found = try_batching(loaded.model, tokens, kind=loaded.info.model_type)
    except Exception as problem:
        if not is_passing(problem):
            raise
        mx.clear_cache()
        return Batching(mode="serial", reason=_why_not(loaded, problem))
    if shelf and loaded.info.folder:
        shelf.keep(loaded.info.folder, loaded.compute.device, found)
    return found


def _why_not(loaded: LoadedModel, problem: Exception) -> str:
    """Say why rows do not run together: the model's fault, or the device's."""
    if is_passing(problem):
        return f"Running requests together could not be tried: {one_line(problem)}."
    return f"The architecture {loaded.info.model_type} fails in a batch ({one_line(problem)})."


def _rehearsed(
    loaded: LoadedModel, make_runner: MakeRunner, mode: BatchMode
) -> tuple[LoadedModel, BatchRunner]:
    """Return a runner that has computed a step, without compiled kernels where these fail."""
    # On a CPU one kernel serves every length; a GPU has others for prompts, and for padded ones.
    lengths = (1, 1) if loaded.compute.device == "cpu" else (5, 3)

    def rehearse() -> BatchRunner:
        runner = make_runner(loaded, mode)
        _rehearse(runner, lengths)
        return runner

    return _uncompiled_if_need_be(rehearse, loaded)


def _uncompiled_if_need_be(
    work: Callable[[], _Result], loaded: LoadedModel
) -> tuple[LoadedModel, _Result]:
    """Do some work, without compiled kernels where it fails with them; return what is true then."""
    try:
        return loaded, work()
    except RuntimeError as problem:
        if is_passing(problem) or loaded.compute.compiler == "none":
            raise
        mx.disable_compile()
        return _without_compiler(loaded), work()


def _blame(loaded: LoadedModel, problem: Exception) -> MlxbunError:
    """Return the error of ours for a model that was loaded and does not run."""
    reason = one_line(problem)
    if is_passing(problem):
        return EngineFailed(
            f"{loaded.info.model_id} was loaded, but its first step failed: {reason}",
            hint="Free some memory, or use a smaller model.",
        )
    return BadModelFiles(
        f"{loaded.info.model_id} was loaded, but cannot compute a token: {reason}",
        hint=f"This version of mlx-lm may not support {loaded.info.model_type} here; try a newer "
        "version or another model.",
    )


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
