"""What each way to save memory costs and gives in one step of training, and that gradients stay.

    python -m benchmarks.training_memory FOLDER [--tokens N]

Each way in a process of its own, the model in float32, one row, rank 8 on all projections. Told are
the faster of two steps, the peak in MLX's own count, and the largest difference of a gradient to
those of the first way, relative to the largest gradient there is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.training import prepare

_WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "--chunk-size 65536": {"chunk_size": 65_536},
    "--mlp-split": {"mlp_split": True},
    "--segment-size 8": {"segment_size": 8},
    "--segment-size 4": {"segment_size": 4},
    "--grad-checkpoint": {"grad_checkpoint": True},
    "--grad-checkpoint --mlp-split": {"grad_checkpoint": True, "mlp_split": True},
}


def main() -> None:
    words = _words()
    if words.way:
        _measure(words)
        return
    with tempfile.TemporaryDirectory() as folder:
        for index, way in enumerate(_WAYS):
            found = _run(way, words, Path(folder))
            differs = _difference(Path(folder) / "0.npz", Path(folder) / f"{index}.npz")
            told = f"{found['seconds']:.2f} s a step, {found['bytes'] / 1e9:.2f} GB"
            print(f"{way:30} {told}, gradients differ by {differs:.1e}", flush=True)


def _words() -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--way", default="")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _run(way: str, words: Any, folder: Path) -> dict[str, float]:
    out = folder / f"{list(_WAYS).index(way)}.npz"
    command = [sys.executable, "-m", "benchmarks.training_memory", str(words.model)]
    command += ["--tokens", str(words.tokens), "--threads", str(words.threads)]
    command += [f"--way={way}", f"--out={out}"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _measure(words: Any) -> None:
    config, trained, items = prepare(words, {"rank": 8, **_WAYS[words.way]})
    import mlx.core as mx

    from core.train.lora import set_trainable, trainable
    from core.train.step import Stepper

    mx.random.seed(0)
    known = trainable(trained.model)  # B begins at zero, and A would have no gradient
    set_trainable(trained.model, {n: 0.01 * mx.random.normal(v.shape) for n, v in known.items()})
    stepper = Stepper(config, trained.model, trained.split)
    mx.reset_peak_memory()
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        _, grads = stepper.gradients(items, [(0,)], 1)
        mx.eval(grads)
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": min(seconds), "bytes": mx.get_peak_memory()}))
    mx.savez(str(words.out), **grads)


def _difference(one: Path, other: Path) -> float:
    import numpy as np

    left, right = np.load(one), np.load(other)
    largest = max(float(np.abs(left[name]).max()) for name in left)
    differs = max(float(np.abs(left[name] - right[name]).max()) for name in left)
    return differs / largest


if __name__ == "__main__":
    main()
