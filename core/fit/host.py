"""The machine that a model is to fit: this one as its engine would compute, or a Mac."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from core.errors import BackendMissing
from core.fit.machines import Speed, speed_of, wired_limit_bytes, working_set_bytes
from core.machine.compute import ComputePlan, prepare_compute
from core.machine.probe import probe_machine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.fit.machines import Sku
    from core.fit.weights import Storage, Weights
    from core.machine.probe import Machine
    from core.paths import Paths
    from core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Host:
    """A machine, as far as a model's memory and speed depend on it."""

    name: str
    """For people: `Apple M4 Pro`, `M4 Pro 48 GB (20-core GPU)`."""
    memory_bytes: int
    """Its memory."""
    usable_bytes: int
    """What weights, caches and transients may take together."""
    gpu: bool
    """Whether MLX computes on a GPU."""
    speed: Speed
    """How fast it reads and multiplies."""
    compiled: bool = True
    """Whether MLX may compile kernels."""
    plan: ComputePlan | None = None
    """How an engine would compute here; None: as on a GPU, weights as stored."""
    machine: Machine | None = None
    """This machine, to find what was measured on it; None: it is another one."""
    sku: Sku | None = None
    """The entry of the list of Macs that it is; None: it is this machine."""
    note: str | None = None
    """What is to be known about it, in one sentence."""

    def storage(self, weights: Weights) -> Storage:
        """Return how an engine would keep weights here."""
        if self.plan is None:
            return "stored"
        if self.plan.unpack_weights(4 * weights.parameters, self.usable_bytes):
            return "unpacked"
        return "widened" if weights.packed and self.plan.widen_scales else "stored"


def find_host(settings: Settings, paths: Paths, environ: Mapping[str, str]) -> Host:
    """Return this machine. Loads the BLAS that MLX would use on a CPU, but not MLX.

    Args:
        settings: `blas`, `dequantize` and `memory_budget` count.
        paths: where what was prepared for MLX is kept.
        environ: the environment, for the search path.

    Raises:
        UsageProblem: an explicit BLAS that cannot be used.
    """
    try:
        plan = prepare_compute(
            blas=settings.blas,
            dequantize=cast('Literal["auto", "on", "off"]', settings.dequantize),
            cache=paths.cache,
            environ=environ,
        )
    except BackendMissing as missing:
        return _without_backend(settings, environ, missing)
    return host_of(plan, settings.memory_budget)


def host_of(plan: ComputePlan, budget_gb: float | None) -> Host:
    """Return this machine with a plan that was made.

    Args:
        plan: how it computes.
        budget_gb: the user's memory budget in GB (10^9 bytes), or None.
    """
    machine = plan.machine
    return Host(
        name=machine.processor,
        memory_bytes=machine.memory_bytes,
        usable_bytes=plan.budget_bytes(budget_gb, _recommended(machine)),
        gpu=machine.backend != "cpu",
        speed=speed_of(machine),
        compiled=plan.compile_kernels,
        plan=plan,
        machine=machine,
    )


def sku_host(sku: Sku, budget_gb: float | None = None) -> Host:
    """Return a Mac of the list.

    Args:
        sku: its entry.
        budget_gb: the user's memory budget in GB (10^9 bytes), or None.
    """
    return Host(
        name=sku.name,
        memory_bytes=sku.memory_bytes,
        usable_bytes=sku.usable_bytes if budget_gb is None else int(budget_gb * 1e9),
        gpu=True,
        speed=sku.speed,
        sku=sku,
    )


def _recommended(machine: Machine) -> int | None:
    """Return what the device recommends to use at most, as `max_recommended_working_set_size`."""
    if machine.backend != "metal":
        return None
    return wired_limit_bytes() or working_set_bytes(machine.memory_bytes)


def _without_backend(
    settings: Settings, environ: Mapping[str, str], missing: BackendMissing
) -> Host:
    machine = probe_machine(environ.get("PATH"))
    given = settings.memory_budget
    usable = int(given * 1e9) if given is not None else int(0.75 * machine.memory_bytes)
    return Host(
        name=machine.processor,
        memory_bytes=machine.memory_bytes,
        usable_bytes=usable,
        gpu=True,
        speed=Speed(bandwidth=None, fp16=None),
        note=f"{missing.message} The numbers are those of one with a GPU.",
    )
