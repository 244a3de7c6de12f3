"""One step of LoRA training against mlx_lm.lora's: time and peak memory, in one run.

    python -m benchmarks.training FOLDER [--tokens N] [--steps N] [--threads N] [--checkpoint]

The same float32 weights, BLAS, rows, rank and layers on both sides, each in a process of its own,
one after the other. Told are each side's fastest step and its peak in MLX's own count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_RANK, _SCALE, _RATE = 8, 20.0, 2e-4
_ROWS = 4


def main() -> None:
    words = _words()
    if words.side:
        _SIDES[words.side](words)
        return
    found = {side: _run(side, words) for side in _SIDES}
    for side, figures in found.items():
        print(f"{side:8} {figures['seconds']:.2f} s a step, {figures['bytes'] / 1e9:.2f} GB")
    ours, theirs = found["mlxbun"], found["mlx_lm"]
    print(f"time {ours['seconds'] / theirs['seconds']:.3f}, ", end="")
    print(f"memory {ours['bytes'] / theirs['bytes']:.3f}")


def _words() -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--side", default="")
    return parser.parse_args()


def _run(side: str, words: Any) -> dict[str, float]:
    more = ["--checkpoint"] if words.checkpoint else []
    command = [sys.executable, "-m", "benchmarks.training", str(words.model), "--side", side, *more]
    for name in ("tokens", "steps", "threads"):
        command += [f"--{name}", str(getattr(words, name))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def prepare(words: Any, fields: dict[str, Any]) -> tuple[Any, Any, list[Any]]:
    """Return a training's configuration, its model and its rows, all of whose tokens count."""
    plan = _plan(words)
    from core.train.config import make_config
    from core.train.encode import Encoded
    from core.train.model import load_train_model, read_tokenizer

    config = make_config(fields)
    trained = load_train_model(
        words.model,
        config,
        tokenizer=read_tokenizer(words.model, plan=plan, memory_budget_gb=None, shelf=None),
        plan=plan,
        memory_budget_gb=None,
        on_note=lambda _line: None,
    )
    every = b"\0" + b"\1" * (words.tokens - 1)
    return config, trained, [Encoded(tokens=tuple(row), response=every) for row in _rows(words)]


def _plan(words: Any) -> Any:
    from core.machine.compute import prepare_compute

    cache = Path.home() / ".cache" / "mlxbun"
    plan = prepare_compute(blas="auto", dequantize="on", cache=cache, environ=os.environ)
    if plan.threads:
        plan.threads.apply(words.threads)
    return plan


def _rows(words: Any) -> list[list[int]]:
    dice = random.Random(0)
    return [[dice.randrange(100, 40_000) for _ in range(words.tokens)] for _ in range(_ROWS)]


def _tell(seconds: list[float]) -> None:
    import mlx.core as mx

    print(json.dumps({"seconds": min(seconds), "bytes": mx.get_peak_memory()}))


def _ours(words: Any) -> None:
    fields = {"rank": _RANK, "scale": _SCALE, "grad_checkpoint": words.checkpoint}
    config, trained, items = prepare(words, fields)
    import mlx.core as mx

    from core.train.lora import trainable
    from core.train.step import Optimizer, Stepper, apply

    stepper = Stepper(config, trained.model, trained.split)
    optimizer = Optimizer(config, trainable(trained.model))
    mx.reset_peak_memory()
    seconds = []
    for step in range(1, words.steps + 1):
        start = time.perf_counter()
        _, grads = stepper.gradients(items, [(step % _ROWS,)], step)
        apply(trained.model, optimizer, grads, _RATE)
        seconds.append(time.perf_counter() - start)
    _tell(seconds)


def _theirs(words: Any) -> None:
    _plan(words)
    import mlx.core as mx
    from mlx.optimizers import AdamW
    from mlx_lm.tuner.trainer import TrainingArgs, train
    from mlx_lm.tuner.utils import linear_to_lora_layers
    from mlx_lm.utils import load_model

    from core.engine.loader import unpack_weights
    from core.train.config import PROJECTIONS

    model, _ = load_model(words.model)
    unpack_weights(model)
    mx.eval(model.parameters())
    model.freeze()
    keys = [name for name, _ in model.layers[0].named_modules() if name.endswith(PROJECTIONS)]
    lora = {"rank": _RANK, "scale": _SCALE, "dropout": 0.0, "keys": keys}
    linear_to_lora_layers(model, len(model.layers), lora)
    rows = [(row, 0) for row in _rows(words)]
    seconds: list[float] = []

    class Callback:
        def on_train_loss_report(self, told: dict[str, float]) -> None:
            seconds.append(1 / told["iterations_per_second"])

        def on_val_loss_report(self, told: dict[str, float]) -> None:
            pass

    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArgs(
            batch_size=1,
            iters=words.steps,
            steps_per_report=1,
            max_seq_length=words.tokens,
            adapter_file=str(Path(folder) / "adapters.safetensors"),
            grad_checkpoint=words.checkpoint,
        )
        mx.reset_peak_memory()
        train(model, AdamW(_RATE), rows, None, options, training_callback=Callback())
    _tell(seconds)


_SIDES = {"mlx_lm": _theirs, "mlxbun": _ours}

if __name__ == "__main__":
    main()
