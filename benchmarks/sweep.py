"""The sensitivity sweep against the same sweep by full forwards, in one run.

    python -m benchmarks.sweep FOLDER [--layers N] [--rows N] [--tokens N] [--bits 2,3,4,8]

Both sides measure the same tensors, forms and rows on the same float32 weights and BLAS. Full
forwards keep the reference's log-probabilities and compute the whole model for every tensor and
form. Printed are both times, their ratio, how far measured values are apart, and how far estimated
ones are from what full forwards find.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any


def main() -> None:
    words = _words()
    model, rows, candidates = _prepare(words)
    ours, seconds = _ours(model, rows, candidates)
    theirs, full_seconds = _by_full_forwards(model, rows, candidates)
    print(f"full forwards {full_seconds:.1f} s, sweep {seconds:.1f} s")
    print(f"ratio {seconds / full_seconds:.3f}")
    for measured in (True, False):
        for form in sorted({entry.form for entry in ours.entries}, key=lambda form: form.bits):
            pairs = [
                (entry.kl, theirs[entry.path, entry.form])
                for entry in ours.entries
                if entry.measured is measured and entry.form == form
            ]
            if pairs:
                _tell("measured" if measured else "estimated", form.bits, pairs)


def _words() -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--layers", type=int, default=0, help="only the first layers; 0: all")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--bits", default="2,3,4,8")
    parser.add_argument("--text", type=Path, default=Path(__file__).parent.parent / "README.md")
    return parser.parse_args()


def _prepare(words: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    from core.machine.compute import prepare_compute

    cache = Path.home() / ".cache" / "mlxbun"
    prepare_compute(blas="auto", dequantize="on", cache=cache, environ=os.environ)
    import mlx.core as mx
    from mlx import nn
    from mlx.utils import tree_flatten
    from mlx_lm.utils import load_model
    from tokenizers import Tokenizer

    from core.engine.loader import unpack_weights
    from core.quantize.form import Form

    model, _ = load_model(words.model)
    unpack_weights(model)
    if words.layers:
        model.model.layers = model.model.layers[: words.layers]
    mx.eval(model.parameters())
    tokenizer = Tokenizer.from_file(str(words.model / "tokenizer.json"))
    tokens = tokenizer.encode(words.text.read_text(encoding="utf-8")).ids
    size = words.rows * words.tokens
    rows = [mx.array(tokens[:size]).reshape(words.rows, words.tokens)]
    forms = [Form(bits=int(bits), group_size=64) for bits in words.bits.split(",")]
    leaves = tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module)
    return model, rows, {path: forms for path, leaf in leaves if hasattr(leaf, "to_quantized")}


def _ours(model: Any, rows: list[Any], candidates: dict[str, Any]) -> tuple[Any, float]:
    from core.engine.blocks import Blocks
    from core.quantize.sensitivity import measure_sensitivity
    from core.quantize.sweep_store import SweepKey

    start = time.perf_counter()
    key = SweepKey(weights="benchmark", mix="benchmark")
    sweep = measure_sensitivity(model, Blocks(model), candidates, rows, key=key)
    return sweep, time.perf_counter() - start


def _by_full_forwards(
    model: Any, rows: list[Any], candidates: dict[str, Any]
) -> tuple[dict[Any, float], float]:
    import mlx.core as mx

    from core.quantize.sensitivity import module_at

    def logps() -> list[Any]:
        found = [model(tokens).astype(mx.float32) for tokens in rows]
        return [logits - mx.logsumexp(logits, axis=-1, keepdims=True) for logits in found]

    start = time.perf_counter()
    before = logps()
    mx.eval(before)
    found = {}
    for path, forms in candidates.items():
        module = module_at(model, path)
        weight = module.weight
        for form in forms:
            how = form.as_config()
            module.weight = mx.dequantize(*mx.quantize(weight, **how), **how)
            pairs = zip(before, logps(), strict=True)
            values = [(mx.exp(p) * (p - q)).sum(axis=-1).flatten() for p, q in pairs]
            found[path, form] = mx.concatenate(values).mean().item()
        module.weight = weight
    return found, time.perf_counter() - start


def _tell(what: str, bits: int, pairs: list[tuple[float, float]]) -> None:
    ratios = sorted(abs(ours / theirs - 1) for ours, theirs in pairs if theirs > 1e-6)
    if not ratios:
        return
    middle, worst = statistics.median(ratios), ratios[-1]
    typical = statistics.median(theirs for _, theirs in pairs)
    print(
        f"{what} at {bits} bits: {len(pairs)} tensors, median KL {typical:.2g}, "
        f"apart by {middle:.2%} (median), {worst:.2%} (most)"
    )


if __name__ == "__main__":
    main()
