"""Runs to put into a store."""

from __future__ import annotations

from typing import Any

from core.figures import Evaluation, Figure, MachineIdentity, Run, RunSettings

MACHINE = MachineIdentity(
    processor="Fast Chip 9", cores=2, memory_bytes=8 * 2**30 + 4096, backend="cpu"
)
SETTINGS = RunSettings(
    blas="OpenBLAS",
    loaded_as="float32 (unpacked)",
    dequantize="auto",
    prefill="latency",
    batch=8,
    tokens=32,
)


def make_run(**changes: Any) -> Run:
    """Return a run with one figure of each kind; `changes` override."""
    given: dict[str, Any] = {
        "model_id": "acme/Fox-1B",
        "revision": "abc",
        "machine": MACHINE,
        "settings": SETTINGS,
        "mlx": "0.32.4",
        "mlx_lm": "0.32.2",
        "mlxbun": "0.1.0",
        "measured_at": "2026-11-29T10:00:00+00:00",
        "figures": (
            Figure.of("prefill", 128, (300.0, 280.0, 290.0)),
            Figure.of("decode", 4, (60.0, 58.0, 61.5)),
            Figure.of("ttft_cold", 128, (0.45, 0.5, 0.4)),
            Figure.of("ttft_warm", 128, (0.06, 0.05, 0.07)),
        ),
    }
    return Run(**(given | changes))


def make_evaluation(day: str, *, name: str, number: int | None = None) -> Evaluation:
    """Return an evaluation of a model."""
    return Evaluation(
        model_id=name,
        revision="abc",
        original_id="a/Fox",
        original_revision="def",
        machine="Fast Chip 9",
        heldout="0" * 64,
        bits_per_weight=4.5,
        size_bytes=1000,
        perplexity=8.5,
        original_perplexity=8.0,
        kl=0.05,
        agreement=0.9,
        mlx="0.32.4",
        mlx_lm="0.32.2",
        mlxbun="0.1.0",
        measured_at=f"{day}T00:00:00+00:00",
        found="{}",
        evaluation_id=number,
    )
