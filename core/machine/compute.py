"""The compute plan: decided once, before MLX is imported, and never on Metal or CUDA.

Everything that only a CPU needs is decided here: a fast BLAS, unpacked weights, and whether MLX
may compile kernels. The engine follows the plan; `doctor` and `/stats` tell it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from core.errors import BackendMissing
from core.machine.blas import Blas, load_blas, thread_setter
from core.machine.probe import Machine, compiler_works, probe_machine
from core.machine.threads import ThreadKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COMPILER_FAILS = (
    "The C++ compiler (g++) on the PATH does not work: MLX runs without fused kernels, a few "
    "percent slower."
)

_COMPILER_MISSING = "No g++ on the PATH: MLX runs without fused kernels, a few percent slower."

# The share of the budget that weights may take when they are unpacked: the rest is for KV.
_UNPACKED_SHARE = 0.75
# The share of RAM that is ours when the user sets no budget and the device recommends none.
_RAM_SHARE = 0.75


@dataclass(frozen=True, kw_only=True)
class ComputePlan:
    """How this process will compute."""

    machine: Machine
    """What it runs on."""
    blas: str
    """The library for float32 products on a CPU, for people; `-` elsewhere."""
    fast_blas: bool
    """Whether that library is fast; False elsewhere."""
    compile_kernels: bool
    """Whether MLX may fuse operations into compiled kernels."""
    dequantize: Literal["auto", "on", "off"]
    """The user's wish about unpacking weights."""
    notes: tuple[str, ...]
    """What to know or to fix, one sentence each."""
    threads: ThreadKeeper | None = None
    """Keeps the BLAS from fighting for cores; None where it does not apply."""

    @property
    def compiler(self) -> str:
        """The C++ compiler that MLX calls on a CPU, `none` when it cannot; `-` elsewhere."""
        if self.machine.backend != "cpu":
            return "-"
        return (self.machine.compiler or "none") if self.compile_kernels else "none"

    def unpack_weights(self, float32_bytes: int, budget_bytes: int) -> bool:
        """Return whether weights become float32 in memory.

        Args:
            float32_bytes: what the model's weights take in float32.
            budget_bytes: what weights and caches may take together.
        """
        if self.dequantize != "auto":
            return self.dequantize == "on"
        # Packed and half-precision products are slow on MLX's CPU backend; float32 ones run
        # through BLAS, which is worth the memory only when that BLAS is fast.
        return (
            self.machine.backend == "cpu"
            and self.fast_blas
            and float32_bytes <= _UNPACKED_SHARE * budget_bytes
        )

    @property
    def widen_scales(self) -> bool:
        """Whether packed weights get float32 scales.

        MLX's CPU backend emulates half precision: measured on SmolLM2-135M at 4 bits, a token
        takes 4 s with float16 scales and 0.12 s with the same ones in float32.
        """
        return self.machine.backend == "cpu"

    def budget_bytes(self, setting_gb: float | None, recommended: int | None) -> int:
        """Return the memory for weights and caches in bytes.

        Args:
            setting_gb: the user's budget in GB (10^9 bytes), or None.
            recommended: the device's recommended working set in bytes, or None.
        """
        if setting_gb is not None:
            return int(setting_gb * 1e9)
        return recommended or int(_RAM_SHARE * self.machine.memory_bytes)


def prepare_compute(
    *,
    blas: str,
    dequantize: Literal["auto", "on", "off"],
    cache: Path,
    environ: Mapping[str, str],
) -> ComputePlan:
    """Decide how to compute and load what must be loaded before MLX.

    Args:
        blas: `auto`, `off` or the path of a library.
        dequantize: the user's wish about unpacking weights.
        cache: our cache folder.
        environ: an environment: PATH, and the thread numbers that BLAS libraries read.

    Raises:
        BackendMissing: MLX has no backend here.
        UsageProblem: an explicit BLAS that cannot be used.
    """
    machine = probe_machine(environ.get("PATH"))
    if machine.backend == "none":
        raise BackendMissing(
            "MLX has no compute backend in this environment.",
            hint="Run `pip install 'mlxbun[cpu]'`, or 'mlxbun[cuda]' with an NVIDIA GPU.",
        )
    if machine.backend != "cpu":
        return ComputePlan(
            machine=machine,
            blas="-",
            fast_blas=False,
            compile_kernels=True,
            dequantize=dequantize,
            notes=(),
        )
    library = load_blas(blas, cache=cache, search_path=environ.get("PATH", ""))
    notes = [library.note] if library.note else []
    compiles = machine.compiler is not None and compiler_works(machine.compiler, cache=cache)
    if not compiles:
        notes.append(COMPILER_FAILS if machine.compiler else _COMPILER_MISSING)
    return ComputePlan(
        machine=machine,
        blas=library.name,
        fast_blas=library.fast,
        compile_kernels=compiles,
        dequantize=dequantize,
        notes=tuple(notes),
        threads=_keep_threads(library, environ) if library.fast else None,
    )


def _keep_threads(library: Blas, environ: Mapping[str, str]) -> ThreadKeeper | None:
    setter = thread_setter(library.path) if library.path else None
    cores = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()
    # The user's own number is not to be changed.
    fixed = any(environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"))
    if setter is None or len(cores) < 2 or fixed:
        return None
    return ThreadKeeper(setter, cores=cores)
