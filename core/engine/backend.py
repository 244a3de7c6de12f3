"""What work with arrays begins with: a compute plan, and then the imports that need it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast

from core.errors import BackendMissing
from core.machine.compute import prepare_compute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.machine.compute import ComputePlan
    from core.paths import Paths
    from core.settings import Settings


def plan_compute(
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    *,
    on_note: Callable[[str], None],
) -> ComputePlan:
    """Return how to compute on this machine; the BLAS that it names is loaded.

    Args:
        settings: the merged settings.
        paths: our folders.
        environ: the environment.
        on_note: receives the plan's notes.
    """
    plan = prepare_compute(
        blas=settings.blas,
        dequantize=cast(Literal["auto", "on", "off"], settings.dequantize),
        cache=paths.cache,
        environ=environ,
    )
    for line in plan.notes:
        on_note(line)
    return plan


def import_backend(*modules: str) -> None:
    """Import mlx-lm, then modules that use it. To be called after `plan_compute`.

    Args:
        modules: their full names.

    Raises:
        BackendMissing: one cannot be imported.
    """
    try:
        from core.engine.slim import import_mlx_lm

        import_mlx_lm()
        for name in modules:
            import_module(name)
    except ImportError as problem:
        raise BackendMissing(
            f"MLX cannot be imported: {problem}.",
            hint="Run `pip install 'mlxbun[cpu]'`, or 'mlxbun[cuda]' with an NVIDIA GPU.",
        ) from problem
