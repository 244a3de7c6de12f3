"""The loop: steps, validations, checkpoints, and every way in which a training ends."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx

from core.engine.device import memory_now
from core.errors import MlxbunError
from core.paths import atomic_write, expanded
from core.registry.adapters import WEIGHTS
from core.train.adapter import write_adapter
from core.train.batches import BatchOrder, in_order
from core.train.checkpoint import (
    Checkpoint,
    Marks,
    Progress,
    drop_checkpoint,
    drop_older_checkpoints,
    load_checkpoint,
    mark_of_arrays,
    save_checkpoint,
)
from core.train.config import TrainConfig
from core.train.data import Dataset, item_length, sequences
from core.train.events import (
    Before,
    Metric,
    Note,
    OnEvent,
    Saved,
    Stage,
    TrainResult,
    event_as_json,
)
from core.train.folder import checkpoints_in
from core.train.lora import set_trainable, trainable
from core.train.model import TrainModel
from core.train.plot import METRICS
from core.train.schedule import learning_rate
from core.train.step import Measured, Optimizer, Stepper, StepResult, apply

Ended = Literal["done", "early", "stopped"]


class Training:
    """One training. For one thread, as all that computes with MLX."""

    def __init__(
        self,
        config: TrainConfig,
        trained: TrainModel,
        data: Dataset,
        *,
        base: str,
        model: str = "",
        on_event: OnEvent,
        should_stop: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take all that is needed; nothing is computed yet.

        Args:
            config: with its three paths.
            trained: the model with fresh adapters.
            data: its rows.
            base: what users call the model.
            model: tells its files from those of others, as `core.train.checkpoint.mark_of_model`.
            on_event: hears what happens.
            should_stop: asked after every step.
            clock: seconds that only go forward.
        """
        assert config.adapter_path is not None
        self._config = config
        self._trained = trained
        self._data = data
        self._base = base
        self._on_event = on_event
        self._should_stop = should_stop
        self._clock = clock
        self._folder = expanded(config.adapter_path)
        self._stepper = Stepper(config, trained.model, trained.split, reference=trained.reference)
        self._optimizer = Optimizer(config, trainable(trained.model))
        lengths = tuple(map(item_length, data.train))
        self._order = BatchOrder(lengths=lengths, size=config.batch_size, seed=config.seed)
        self._marks = Marks(
            data=fingerprint(data), model=model, reference=mark_of_arrays(trained.reference)
        )
        self._progress = Progress(step=0, trained_tokens=0, before=Before(loss=0, perplexity=1))
        self._saved_step = -1
        self._started = clock()

    def run(self, *, resume: bool) -> TrainResult:
        """Train, and leave the adapter in its folder.

        Args:
            resume: go on from the last checkpoint.

        Raises:
            NotFound: there is no checkpoint to go on from.
            UsageProblem: its checkpoint is of another training.
            MlxbunError: the loss exploded, or the adapter cannot be written.
        """
        if self._stepper.note:
            self._on_event(Note(line=self._stepper.note))
        if resume:
            self._resume()
        else:
            self._begin()
        ended = self._steps()
        return self._finish(ended)

    def _begin(self) -> None:
        # What another one told that ended before it had anything to keep.
        stale = self._folder / METRICS
        self._try_write("metrics", lambda: stale.unlink(missing_ok=True))
        self._say("measuring", f"measuring the loss of {self._measured_on} rows before training")
        before = _plain(self._measure())
        self._progress = replace(self._progress, before=before)
        self._note_validation(before)
        mx.random.seed(self._config.seed)

    def _resume(self) -> None:
        found = load_checkpoint(self._folder, self._config, marks=self._marks)
        self._progress = found.progress
        set_trainable(self._trained.model, found.adapter)
        self._optimizer.restore(found.optimizer)
        self._saved_step = found.progress.step
        self._try_write(
            "metrics", lambda: _cut_metrics(self._folder / METRICS, found.progress.step)
        )
        self._on_event(Note(line=f"Going on from step {found.progress.step}."))

    def _steps(self) -> Ended:
        """Compute steps until the last, or until something ends them before."""
        config = self._config
        self._say("training", f"training {config.iters} steps")
        report = _Report(self._clock)
        while self._progress.step < config.iters:
            if self._should_stop():
                return "stopped"
            self._leave_cores()
            step = self._progress.step + 1
            result, rate = self._step(step)
            report.add(result)
            if step % config.steps_per_report == 0 or step == config.iters:
                self._tell(report.metric(step, config.iters, rate, self._progress.trained_tokens))
            if self._is_time_to_measure(step) and self._validate(step) == "early":
                return "early"
            if config.save_checkpoints and step % config.save_every == 0:
                self._save()
        return "done"

    def _leave_cores(self) -> None:
        """Use as many threads as others leave cores, where that is ours to decide."""
        threads = self._trained.threads
        if threads and (count := threads.wanted(stale=math.inf)):
            mx.synchronize()
            threads.apply(count)

    def _step(self, step: int) -> tuple[StepResult, float]:
        config = self._config
        batches = self._order.step(step, config.grad_accumulation_steps)
        result, grads = self._stepper.gradients(self._data.train, batches, step)
        if not (math.isfinite(result.grad_norm) and result.loss <= config.loss_limit):
            told = f"at step {step} (gradient norm {result.grad_norm:.4g})"
            raise self._exploded(result.loss, told, weights=step - 1)
        rate = learning_rate(
            step,
            peak=config.learning_rate,
            steps=config.iters,
            warmup=config.warmup_iters,
            schedule=config.lr_schedule,
        )
        apply(self._trained.model, self._optimizer, grads, rate)
        tokens = self._progress.trained_tokens + result.tokens
        self._progress = replace(self._progress, step=step, trained_tokens=tokens)
        return result, rate

    def _is_time_to_measure(self, step: int) -> bool:
        every = self._config.steps_per_eval
        return bool(self._data.valid and every and step % every == 0 and step < self._config.iters)

    def _validate(self, step: int) -> Ended | None:
        """Measure the validation rows; keep the adapter where it is the best so far."""
        found = self._measured_now(step)
        if self._progress.best_loss is None or found.loss < self._progress.best_loss:
            self._progress = replace(self._progress, stale=0)
            # Where it cannot be written, the one that lies there is still the best that is kept.
            if self._try_write("best adapter", self._write_adapter):
                self._progress = replace(self._progress, best_loss=found.loss, best_step=step)
        else:
            self._progress = replace(self._progress, stale=self._progress.stale + 1)
        patience = self._config.early_stopping
        if patience and self._progress.stale >= patience:
            self._on_event(
                Note(line=f"Validation did not get better {patience} times: ending at step {step}.")
            )
            return "early"
        return None

    def _finish(self, ended: Ended) -> TrainResult:
        """Measure what was trained, and leave the best of it in the folder."""
        step = self._progress.step
        if not step:
            return self._result(ended, kept=0, after=self._progress.before)
        self._say("saving", "measuring the loss after training, and saving")
        if self._config.save_checkpoints or ended == "stopped":
            self._save()
        last = self._measured_now(step)
        best = self._progress.best_loss
        there = (self._folder / WEIGHTS).exists()
        if best is not None and best <= last.loss and self._progress.best_step != step and there:
            kept, after = self._progress.best_step, self._measured_best(last)
        else:
            kept, after = step, last
            self._write_final()
        if after.loss > self._progress.before.loss:
            worse = "The loss is higher than before training: a lower learning_rate may do better."
            self._on_event(Note(line=worse))
        return self._result(ended, kept=kept, after=after)

    def _result(self, ended: Ended, *, kept: int, after: Before) -> TrainResult:
        return TrainResult(
            adapter_path=str(self._folder),
            ended=ended,
            step=self._progress.step,
            adapter_step=kept,
            before=self._progress.before,
            after=after,
            measured_on=self._measured_on,
            trained_tokens=self._progress.trained_tokens,
            seconds=self._clock() - self._started,
            memory_bytes=memory_now().peak,
        )

    def _measured_now(self, step: int) -> Before:
        """Return what the adapter of a step is measured at, unless that is beyond all limits."""
        found = _plain(self._measure())
        self._note_validation(found)
        if not found.loss <= self._config.loss_limit:
            raise self._exploded(found.loss, f"as measured after step {step}", weights=step)
        return found

    def _measured_best(self, last: Before) -> Before:
        """Return what was measured of the best step, as its validation told."""
        for line in _metric_lines(self._folder / METRICS):
            if line.get("kind") == "val" and line.get("step") == self._progress.best_step:
                perplexity = line.get("perplexity")
                return Before(
                    loss=float(line["loss"]),
                    perplexity=math.inf if perplexity is None else float(perplexity),
                    accuracy=line.get("accuracy"),
                    reward_margin=line.get("reward_margin"),
                )
        return last

    def _measure(self) -> Measured:
        self._leave_cores()
        rows = self._data.measured
        batches = in_order([item_length(row) for row in rows], self._config.batch_size)
        return self._stepper.measure(rows, batches)

    @property
    def _measured_on(self) -> str:
        return "validation" if self._data.valid else "training"

    def _note_validation(self, found: Before) -> None:
        self._tell(
            Metric(
                kind="val",
                step=self._progress.step,
                steps=self._config.iters,
                loss=found.loss,
                perplexity=found.perplexity,
                accuracy=found.accuracy,
                reward_margin=found.reward_margin,
            )
        )

    def _tell(self, metric: Metric) -> None:
        """Hand a metric on, and keep it in the file: one that cannot be kept ends nothing."""
        self._on_event(metric)
        line = json.dumps(event_as_json(metric)) + "\n"

        def write() -> None:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / METRICS).open("a", encoding="utf-8") as file:
                file.write(line)

        self._try_write("metrics", write)

    def _save(self) -> None:
        if self._progress.step in (0, self._saved_step):
            return
        self._try_write("checkpoint", self._write_checkpoint)

    def _write_checkpoint(self) -> None:
        checkpoint = Checkpoint(
            progress=self._progress,
            adapter=trainable(self._trained.model),
            optimizer=self._optimizer.arrays,
        )
        try:
            file = save_checkpoint(self._folder, checkpoint, self._config, marks=self._marks)
        except OSError:
            # Room for two is room for the old one beside a new one.
            if not drop_older_checkpoints(self._folder):
                raise
            file = save_checkpoint(self._folder, checkpoint, self._config, marks=self._marks)
        self._saved_step = self._progress.step
        self._on_event(Saved(step=self._saved_step, path=str(file)))

    def _write_adapter(self) -> None:
        write_adapter(
            self._folder,
            self._trained,
            trainable(self._trained.model),
            self._config,
            base=self._base,
        )

    def _write_final(self) -> None:
        try:
            self._write_adapter()
        except OSError as problem:
            kept = (
                f" The checkpoint of step {self._saved_step} is kept."
                if self._saved_step > 0
                else ""
            )
            raise MlxbunError(
                f"The adapter cannot be written to {self._folder}: {problem.strerror or problem}."
                f"{kept}",
                hint=f"Make room, and run it again{' with --resume' if kept else ''}.",
            ) from problem

    def _try_write(self, what: str, write: Callable[[], None]) -> bool:
        """Write what can be written again later, and return whether it is there now."""
        try:
            write()
        except OSError as problem:
            reason = problem.strerror or problem
            self._on_event(
                Note(line=f"The {what} could not be written: {reason}. Training goes on.")
            )
            return False
        return True

    def _exploded(self, loss: float, when: str, *, weights: int) -> MlxbunError:
        """Leave the last good adapter in the folder, and return what to raise.

        Args:
            loss: that is too high, or no number.
            when: words that say so.
            weights: the step whose adapter gave it. Its checkpoint goes.
        """
        drop_checkpoint(self._folder, weights)
        there = bool(checkpoints_in(self._folder))
        kept = self._progress.best_step
        if self._progress.best_loss is None:
            kept = self._restore_last_good() if there else 0
        became = f"{loss:.4g}" if math.isfinite(loss) else "no number"
        told = f"The adapter of step {kept} is kept." if kept else "No adapter was kept."
        on = "go on with --resume" if there else "begin again"
        return MlxbunError(
            f"The loss became {became} {when}. {told}",
            hint=f"Lower learning_rate, or set grad_clip_norm, and {on}.",
        )

    def _restore_last_good(self) -> int:
        """Write the adapter of the last checkpoint, and return its step; 0: it cannot be read."""
        try:
            found = load_checkpoint(self._folder, self._config, marks=self._marks)
        except MlxbunError:
            return 0
        set_trainable(self._trained.model, found.adapter)
        self._try_write("adapter", self._write_adapter)
        return found.progress.step

    def _say(self, stage: str, message: str) -> None:
        done = self._progress.step / self._config.iters
        self._on_event(Stage(stage=stage, progress=done, message=message))


class _Report:
    """Gathers the steps between two reports."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._results: list[StepResult] = []
        self._steps = 0
        self._seconds = 0.0

    def add(self, result: StepResult) -> None:
        """Count a step."""
        self._results.append(result)

    def metric(self, step: int, steps: int, rate: float, tokens: int) -> Metric:
        """Return what the gathered steps come to, and begin anew."""
        now, results = self._clock(), self._results
        seconds = max(1e-9, now - self._since)
        self._steps, self._seconds = self._steps + len(results), self._seconds + seconds
        self._since, self._results = now, []
        return Metric(
            kind="train",
            step=step,
            steps=steps,
            loss=sum(r.loss for r in results) / len(results),
            accuracy=_mean(r.accuracy for r in results),
            reward_margin=_mean(r.reward_margin for r in results),
            learning_rate=rate,
            grad_norm=results[-1].grad_norm,
            tokens_per_sec=sum(r.tokens for r in results) / seconds,
            trained_tokens=tokens,
            memory_bytes=memory_now().peak,
            seconds_left=(steps - step) * self._seconds / self._steps,
        )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def fingerprint(data: Dataset) -> str:
    """Return what tells a training's rows from others: a digest of their tokens and masks."""
    digest = hashlib.sha256()
    for row in (*data.train, None, *data.valid):
        for part in sequences(row) if row else ():
            digest.update(json.dumps(part.tokens).encode())
            digest.update(part.response)
            digest.update(part.muted)
        digest.update(b"|")
    return digest.hexdigest()


def _plain(measured: Measured) -> Before:
    return Before(
        loss=measured.loss,
        perplexity=measured.perplexity,
        accuracy=measured.accuracy,
        reward_margin=measured.reward_margin,
    )


def _metric_lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for line in text.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue  # cut off by a crash
        if isinstance(values, dict):
            found.append(values)
    return found


def _cut_metrics(file: Path, step: int) -> None:
    """Take out what steps after a checkpoint had told: they are computed again."""
    if not file.exists():
        return
    kept = [line for line in _metric_lines(file) if line.get("step", 0) <= step]
    with atomic_write(file) as out:
        out.write("".join(json.dumps(line) + "\n" for line in kept).encode())
