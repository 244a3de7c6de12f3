"""What MLX can do here, tried out. For `doctor`, in a process that runs no engine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.metadata import version

import mlx.core as mx

from core.engine.device import device_name, recommended_working_set


@dataclass(frozen=True, kw_only=True)
class MlxReport:
    """MLX as it answers."""

    version: str
    """Of the `mlx` wheel."""
    device: str
    """`cpu`, `metal` or `cuda`."""
    device_label: str
    """The device's own name."""
    working_set_bytes: int | None
    """What the device recommends to use at most; None: it does not say."""
    gflops: float
    """Billions of float32 operations a second in one 1,024 x 1,024 matrix product."""


def diagnose_mlx() -> MlxReport:
    """Ask MLX for its device and time one product (10 ms when fast, half a second when not)."""
    device = mx.default_device()
    label = mx.device_info(device).get("device_name", "unknown")
    return MlxReport(
        version=version("mlx"),
        device=device_name(),
        device_label=str(label),
        working_set_bytes=recommended_working_set(),
        gflops=_gflops(),
    )


def _gflops(size: int = 1024) -> float:
    left = mx.random.normal((size, size))
    mx.eval(left @ left)  # the first one pays for threads and pages
    start = time.perf_counter()
    mx.eval(left @ left)
    return 2 * size**3 / (time.perf_counter() - start) / 1e9
