"""`mlxbun doctor`: what this machine has, how mlxbun would compute, and what to fix."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import typer

from commands._shared.options import BlasOption, JsonOption
from core.errors import BackendMissing, StoreCorrupt, UsageProblem
from core.settings import Settings
from core.units import format_bytes

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.machine.compute import ComputePlan
    from core.machine.probe import Machine
    from core.paths import Paths


def doctor(context: typer.Context, blas: BlasOption = None, json: JsonOption = False) -> None:
    """Show machine, memory, MLX device, BLAS, compiler and caches, and what to fix."""
    from core.machine.compute import prepare_compute
    from core.machine.probe import probe_machine

    session: Session = context.obj
    settings, unread = _settings(session, blas)
    try:
        plan = prepare_compute(
            blas=settings.blas,
            dequantize="auto",
            cache=session.paths.cache,
            environ=session.environ,
        )
        computing, problems = _computing(plan, settings.memory_budget)
    except BackendMissing as missing:
        computing, problems = {"backend": "none"}, [f"{missing.message} {missing.hint}"]
    session.console(json=json).record(
        {
            "machine": _machine(probe_machine(session.environ.get("PATH"))),
            "computing": computing,
            "folders": _folders(session.paths),
            "to_fix": [*unread, *problems, *_folder_problems(session.paths)],
        }
    )


def _settings(session: Session, blas: str | None) -> tuple[Settings, list[str]]:
    """Return the settings, and what is wrong with them: then they are the defaults."""
    try:
        return session.settings(blas=blas).values, []
    except (StoreCorrupt, UsageProblem) as problem:
        told = " ".join(filter(None, (problem.message, problem.hint)))
        return Settings(blas=blas or Settings.blas), [told]


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "system": f"{machine.system} {machine.architecture}",
        "processor": f"{machine.processor}, {machine.cores} cores",
        "memory": format_bytes(machine.memory_bytes),
        "python": machine.python,
    }


def _computing(plan: ComputePlan, budget_gb: float | None) -> tuple[dict[str, Any], list[str]]:
    """Return how MLX computes, and what is wrong with it."""
    told = {
        "backend": plan.machine.backend,
        "blas": plan.blas,
        "compiler": plan.compiler,
    }
    try:
        from core.engine.diagnose import diagnose_mlx

        mlx = diagnose_mlx()
    except (ImportError, RuntimeError) as problem:
        wrong = f"MLX does not work: {problem}. Install it again for this Python."
        return told, [*plan.notes, wrong]
    budget = plan.budget_bytes(budget_gb, mlx.working_set_bytes)
    measured = {
        "mlx": mlx.version,
        "device": f"{mlx.device} ({mlx.device_label})",
        "float32_product": f"{mlx.gflops:.0f} GFLOP/s",
        "memory_budget": f"{format_bytes(budget)} for weights and caches",
    }
    return told | measured, list(plan.notes)


def _folders(paths: Paths) -> dict[str, Any]:
    return {
        "settings": str(paths.config_file),
        "cache": str(paths.cache),
        "hugging_face_cache": str(paths.hub_cache),
        "free_there": format_bytes(shutil.disk_usage(_existing(paths.hub_cache)).free),
    }


def _folder_problems(paths: Paths) -> list[str]:
    found = []
    for folder in (paths.home, paths.cache, paths.hub_cache):
        if not _existing(folder).is_dir():
            found.append(f"{_existing(folder)} is in the way: there should be a folder.")
        elif not os.access(_existing(folder), os.W_OK):
            found.append(f"{folder} cannot be written: check its owner and permissions.")
    return found


def _existing(folder: Any) -> Any:
    """Return the nearest folder above that exists: ours are made when they are first needed."""
    while not folder.exists():
        folder = folder.parent
    return folder
