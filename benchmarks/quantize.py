"""Our rounding against mlx-lm's uniform one at the same size, on held-out text, in one run.

    python -m benchmarks.quantize STARTER [--kinds llama,qwen2,mixtral] [--bits 4,3] [--apart]

STARTER is the folder of the starter model. The reference models (`quantize_models.py`) are made of
it. Both sides have the same width and group for every weight, the embedding included, so the same
bits per weight; ours is calibrated on our own mix. Printed are for each side perplexity, its
increase and KL divergence from the original, and the ratios of the two with the paired 95% bounds.
`--apart` also packs the embedding alone and the layers alone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.evals.table import ProofTable, Ratio
    from core.quantize.form import Form
    from core.quantize.rounding import Packed

_GROUP = 64
_ROUTER_BITS = 8
_MEMORY_SHARE = 0.5


def main() -> None:
    words = _words()
    plan = _prepare()
    from benchmarks.quantize_models import write_reference

    with tempfile.TemporaryDirectory() as folder:
        for kind in words.kinds.split(","):
            model = write_reference(words.starter, Path(folder) / kind, kind)
            for bits in map(int, words.bits.split(",")):
                _compare(model, kind, bits, words, plan)


def _words() -> Any:
    parser = argparse.ArgumentParser()
    parser.add_argument("starter", type=Path)
    parser.add_argument("--kinds", default="llama,qwen2,mixtral")
    parser.add_argument("--bits", default="4,3")
    parser.add_argument("--rows", type=int, default=0, help="of calibration text; 0: all")
    parser.add_argument("--length", type=int, default=256, help="tokens of a row")
    parser.add_argument("--heldout-rows", type=int, default=0, help="0: all")
    parser.add_argument("--apart", action="store_true")
    return parser.parse_args()


def _prepare() -> Any:
    from core.machine.compute import prepare_compute

    cache = Path.home() / ".cache" / "mlxbun"
    return prepare_compute(blas="auto", dequantize="auto", cache=cache, environ=os.environ)


def _compare(folder: Path, kind: str, bits: int, words: Any, plan: Any) -> None:
    from core.engine.tokenizer import Tokenizer
    from core.evals.subjects import folder_subject, packed_subject

    original = folder_subject(folder, name="original", role="original")
    tokenizer = Tokenizer.load(folder, eos_ids=None, shelf=None)
    forms = _forms(original.open(), bits)
    start = time.perf_counter()
    arrays = _fitted(original, forms, tokenizer, words)
    seconds = time.perf_counter() - start
    print(f"{kind}, {bits} bits in groups of {_GROUP}: fitted in {seconds:.0f} s", flush=True)
    for what, chosen in _choices(forms, apart=words.apart):
        some = {path: forms[path] for path in chosen}
        uniform = {path: form.as_config() for path, form in some.items()}
        table = _measured(
            original,
            [
                packed_subject(original, uniform, name="uniform"),
                _ours(original, some, arrays),
            ],
            tokenizer,
            words,
            plan,
        )
        _tell(what, table)


def _forms(model: Any, bits: int) -> dict[str, Form]:
    """Return the form of every layer: one width, routers at 8 bits."""
    from core.quantize.form import Form
    from core.quantize.source import leaf_modules

    return {
        path: Form(bits=_ROUTER_BITS if path.endswith(".gate") else bits, group_size=_GROUP)
        for path, module in leaf_modules(model)
        if hasattr(module, "to_quantized")
    }


def _choices(forms: dict[str, Form], *, apart: bool) -> list[tuple[str, list[str]]]:
    """Return what is packed, in words, and its paths."""
    found = [("all weights", list(forms))]
    if apart:
        found += [
            ("the embedding alone", [path for path in forms if path.endswith("embed_tokens")]),
            ("the layers alone", [path for path in forms if not path.endswith("embed_tokens")]),
        ]
    return found


def _fitted(original: Any, forms: dict[str, Form], tokenizer: Any, words: Any) -> dict[str, Packed]:
    import mlx.core as mx

    from core.engine.blocks import Blocks
    from core.quantize.calibration import calibration_rows
    from core.quantize.walk import fitted

    text = calibration_rows("mlxbun", tokenizer, n=words.rows, length=words.length)
    model = original.open()
    return dict(
        fitted(
            model,
            Blocks(model, tried=1),
            forms,
            [mx.array([row]) for row in text.rows],
            on_note=lambda line: print(f"  {line}", flush=True),
            on_block=lambda _done, _count: None,
            reopen=original.open,
        )
    )


def _ours(original: Any, forms: dict[str, Form], arrays: dict[str, Packed]) -> Any:
    from core.evals.subjects import Subject

    return Subject(name="ours", role="quantized", open=_opener(original, forms, arrays))


def _opener(original: Any, forms: dict[str, Form], arrays: dict[str, Packed]) -> Callable[[], Any]:
    from mlx import nn

    def load() -> Any:
        model = original.open()
        nn.quantize(
            model,
            class_predicate=lambda path, _: forms[path].as_config() if path in forms else False,
        )
        for path, module in model.named_modules():
            if path in forms:
                module.update(arrays[path])
        return model

    return load


def _measured(
    original: Any, candidates: list[Any], tokenizer: Any, words: Any, plan: Any
) -> ProofTable:
    from dataclasses import replace

    from core.evals.heldout import heldout_rows
    from core.evals.measure import measure
    from core.evals.streams import How

    text = heldout_rows(tokenizer, length=words.length)
    if words.heldout_rows:
        every = max(1, len(text.rows) // words.heldout_rows)
        text = replace(text, rows=text.rows[::every], domains=text.domains[::every])
    budget = int(_MEMORY_SHARE * plan.machine.memory_bytes)
    return measure(original, candidates, text, how=How(budget_bytes=budget, threads=plan.threads))


def _tell(what: str, table: ProofTable) -> None:
    before = table.original.overall.perplexity
    print(f"  {what}, {table.original.overall.tokens} held-out tokens, perplexity {before:.3f}")
    for entry in table.candidates:
        rise = entry.overall.perplexity - before
        figures = f"perplexity +{rise:.3f}, KL {entry.overall.kl:.4f}"
        print(f"    {entry.name:8} {entry.bits_per_weight:.3f} bits per weight, {figures}")
    for each in table.comparisons:
        rise_ratio, kl_ratio = _ratio(each.perplexity_increase), _ratio(each.kl)
        print(f"    ratio    perplexity increase {rise_ratio}, KL {kl_ratio}", flush=True)


def _ratio(found: Ratio) -> str:
    value, low, high = (
        "-" if each is None else f"{each:.3f}" for each in (found.value, found.low, found.high)
    )
    return f"{value} ({low} to {high})"


if __name__ == "__main__":
    main()
