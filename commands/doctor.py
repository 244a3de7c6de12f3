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
    from collections.abc import Mapping

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
    report = {
        "machine": _machine(probe_machine(session.environ.get("PATH"))),
        "computing": computing,
        "folders": _folders(session.paths),
        "to_fix": [*unread, *problems, *_folder_problems(session.paths)],
    }
    session.console(json=json).record(report if json else _for_people(report))


def _settings(session: Session, blas: str | None) -> tuple[Settings, list[str]]:
    """Return the settings, and what is wrong with them: then they are the defaults."""
    try:
        return session.settings(blas=blas).values, []
    except (StoreCorrupt, UsageProblem) as problem:
        told = " ".join(filter(None, (problem.message, problem.hint)))
        return Settings(blas=blas or Settings.blas), [told]


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "system": machine.system,
        "architecture": machine.architecture,
        "processor": machine.processor,
        "cores": machine.cores,
        "memory_bytes": machine.memory_bytes,
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
    measured = {
        "mlx": mlx.version,
        "device": mlx.device,
        "device_name": mlx.device_label,
        "float32_gflops": round(mlx.gflops, 1),
        "memory_budget_bytes": plan.budget_bytes(budget_gb, mlx.working_set_bytes),
    }
    return told | measured, list(plan.notes)


def _folders(paths: Paths) -> dict[str, Any]:
    return {
        "settings": str(paths.config_file),
        "cache": str(paths.cache),
        "hugging_face_cache": str(paths.hub_cache),
        "free_bytes": shutil.disk_usage(_existing(paths.hub_cache)).free,
    }


def _for_people(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same with fewer lines and units."""
    machine, computing, folders = report["machine"], report["computing"], report["folders"]
    measured = {}
    if "mlx" in computing:
        budget = format_bytes(computing["memory_budget_bytes"])
        measured = {
            "mlx": computing["mlx"],
            "device": f"{computing['device']} ({computing['device_name']})",
            "float32_product": f"{computing['float32_gflops']:.0f} GFLOP/s",
            "memory_budget": f"{budget} for weights and caches",
        }
    return {
        "machine": {
            "system": f"{machine['system']} {machine['architecture']}",
            "processor": f"{machine['processor']}, {machine['cores']} cores",
            "memory": format_bytes(machine["memory_bytes"]),
            "python": machine["python"],
        },
        "computing": {
            name: computing[name] for name in ("backend", "blas", "compiler") if name in computing
        }
        | measured,
        "folders": {
            **{name: folders[name] for name in ("settings", "cache", "hugging_face_cache")},
            "free_there": format_bytes(folders["free_bytes"]),
        },
        "to_fix": report["to_fix"],
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
