"""How much a model's output suffers from each tensor in each form, and from several together.

One tensor at a time is replaced by what its packed form decodes to, and the KL divergence of the
model's output from the original output is measured on calibration rows. The layers before it
are not computed again (`meter`). Which forms are measured, and how the values of the others follow
from them, is in `scaling`.

`B` rows, `T` tokens, `D` input size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten

from core.engine.blocks import Blocks, widen
from core.engine.device import recommended_working_set
from core.evals.streams import Watch
from core.progress import Progress
from core.quantize.form import Form
from core.quantize.meter import Calls, Loss, Meter, placed
from core.quantize.scaling import SHARE, Unit, coarsest_first, estimated, planned
from core.quantize.sweep_store import Fact, Record, Spot, Sweep, SweepKey

Candidates = Mapping[str, Sequence[Form]]
"""For each module path the forms that its `weight` can take."""

_ROOM_SHARE = 0.8  # of the device's memory, for a model and its float32 copy


def measure_sensitivity(
    model: Any,
    blocks: Blocks | None,
    candidates: Candidates,
    rows: Sequence[mx.array],
    *,
    key: SweepKey,
    record: Record | None = None,
    share: float | None = SHARE,
    watch: Watch | None = None,
) -> Sweep:
    """Return the sensitivity of a model's output to each tensor in each form.

    The model is computed in float32 where that fits in memory; its arrays are restored afterwards.

    Args:
        model: the mlx-lm module with floating-point weights.
        blocks: the same model layer by layer; None: its layers are not a plain row, and every
            measurement is a full forward.
        candidates: the tensors and their forms. A reference is one more form of each.
        rows: calibration tokens, batches [B, T].
        key: what the sweep is kept by; its `reference` is followed.
        record: what is known already; new facts are added to it.
        share: time as a share of the same sweep by full forwards; None: measure every form.
        watch: who follows it.

    Raises:
        StoppedError: `watch.should_stop` said so; what was measured is in the record.
        OSError: the record cannot be written.
    """
    record = Record() if record is None else record
    watch = watch or Watch()
    units = _units(blocks, candidates, _modules(model, candidates), key.reference)
    plan = planned(units, share=share, reference=key.reference)
    work = _Work(units, plan, record, watch, reference=key.reference)
    if not work.complete:
        if blocks is None:
            watch.on_note("The layers of this model are not a plain row: full forwards are used.")
        with _fit_to_compute(model) as originals:
            work.run(model, blocks, rows, originals)
    return Sweep(
        key=key,
        tokens=record.tokens,
        base_kl=record.base_kl or 0.0,
        entries=estimated(units, _planned_facts(record, plan, key), reference=key.reference),
    )


def _planned_facts(
    record: Record, plan: Mapping[str, Sequence[Form]], key: SweepKey
) -> dict[Spot, Fact]:
    """Return what is known, without values that only sweeps of other candidates have measured.

    So the same recipe chooses the same forms, whatever was measured before it.
    """
    return {
        (path, form): fact
        if form == key.reference or form in plan.get(path, ())
        else replace(fact, kl=None, error=None)
        for (path, form), fact in record.facts.items()
    }


def measure_together(
    model: Any, blocks: Blocks | None, forms: Mapping[str, Form], rows: Sequence[mx.array]
) -> Loss:
    """Return the divergence of a model whose tensors are packed together.

    The model is computed in float32 where that fits in memory; its arrays are restored afterwards.

    Args:
        model: the mlx-lm module with floating-point weights.
        blocks: the same model layer by layer, or None.
        forms: for each module path the form of its weight.
        rows: calibration tokens, batches [B, T].
    """
    modules = _modules(model, forms)
    with _fit_to_compute(model) as originals:
        meter = Meter(model, blocks, rows, heads=tuple(modules.values()))
        with ExitStack() as stack:
            for path, module in modules.items():
                weight = rounded(originals(module), forms[path]).astype(module.weight.dtype)
                stack.enter_context(placed(module, weight))
            return meter.whole()


def module_at(model: Any, path: str) -> Any:
    """Return the module at a path such as `model.layers.0.mlp.up_proj`."""
    found = model
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else getattr(found, part)
    return found


def rounded(weight: mx.array, form: Form) -> mx.array:
    """Return what a weight [.., D] decodes to after it was packed plainly, float32."""
    how: dict[str, Any] = form.as_config()
    packed = mx.quantize(weight, **how)
    return mx.dequantize(*packed, **how).astype(mx.float32)


class _Work:
    """One sweep: what is to be measured, and how far it is."""

    def __init__(
        self,
        units: Sequence[Unit],
        plan: Mapping[str, Sequence[Form]],
        record: Record,
        watch: Watch,
        *,
        reference: Form | None,
    ) -> None:
        self._units, self._plan, self._record, self._watch = units, plan, record, watch
        self._reference = reference
        self._modules: Mapping[str, Any] = {}
        self._originals: Callable[[Any], mx.array] = lambda module: module.weight
        self._done = 0.0
        self._left = sum(unit.cost * len(self._unmeasured(unit)) for unit in units)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to measure."""
        return not any(self._missing(unit) for unit in self._units)

    def run(
        self,
        model: Any,
        blocks: Blocks | None,
        rows: Sequence[mx.array],
        originals: Callable[[Any], mx.array],
    ) -> None:
        """Measure what is missing."""
        self._modules, self._originals = _modules(model, self._plan), originals
        outside = [unit for unit in self._units if unit.block is None]
        heads = tuple(self._modules[unit.path] for unit in outside) if blocks else ()
        meter = Meter(model, blocks, rows, heads=heads, on_note=self._watch.on_note)
        with ExitStack() as stack:
            for module in self._modules.values():
                if self._reference is None:
                    break
                weight = rounded(originals(module), self._reference)
                stack.enter_context(placed(module, weight.astype(module.weight.dtype)))
            base = meter.settle()
            if self._record.base_kl is None:
                self._record.set_base(base, meter.tokens)
            for unit in outside:
                self._measure(unit, [], meter.outside)
            for index in range(len(blocks.layers) if blocks else 0):
                units = [u for u in self._units if u.block == index and self._missing(u)]
                calls = meter.calls({unit.path: self._modules[unit.path] for unit in units})
                for unit in units:
                    self._measure(unit, calls[unit.path], meter.inside)
                meter.step()

    def _measure(self, unit: Unit, calls: Calls, measure: Callable[[], Loss]) -> None:
        module = self._modules[unit.path]
        original = self._originals(module)
        with placed(module, original.astype(module.weight.dtype)):
            plain = [module(*args) for args in calls] or [original]
        for form in self._missing(unit):
            self._watch.step()
            weight = rounded(original, form)
            with placed(module, weight.astype(module.weight.dtype)):
                noise = _apart(plain, [module(*args) for args in calls] or [weight])
                loss = measure() if form in self._plan[unit.path] else None
            if loss is None:
                self._record.add((unit.path, form), Fact(noise=noise))
                continue
            self._record.add((unit.path, form), Fact(noise=noise, kl=loss.kl, error=loss.error))
            self._report(unit)

    def _missing(self, unit: Unit) -> list[Form]:
        known, unmeasured = self._record.facts, self._unmeasured(unit)
        return [f for f in unit.forms if f in unmeasured or (unit.path, f) not in known]

    def _unmeasured(self, unit: Unit) -> list[Form]:
        facts = self._record.facts
        known = {form: facts.get((unit.path, form)) for form in self._plan[unit.path]}
        return [form for form, fact in known.items() if fact is None or fact.kl is None]

    def _report(self, unit: Unit) -> None:
        self._done += unit.cost
        done, total = round(100 * self._done), round(100 * self._left)
        task = f"measuring {unit.path}"
        self._watch.on_progress(Progress(task=task, done=done, total=total, unit="% of a forward"))


def _modules(model: Any, paths: Iterable[str]) -> dict[str, Any]:
    return {path: module_at(model, path) for path in paths}


def _units(
    blocks: Blocks | None,
    candidates: Candidates,
    modules: Mapping[str, Any],
    reference: Form | None,
) -> list[Unit]:
    """Return the tensors in the order of the layers, each with its place and cost."""
    layers = blocks.layers if blocks else []
    places = {id(module): at for at, layer in enumerate(layers) for module in layer.modules()}
    head = _head_cost(blocks, layers)
    units = []
    for path, forms in candidates.items():
        block = places.get(id(modules[path]))
        cost = 1.0 if block is None else (len(layers) - block + head) / (len(layers) + head)
        every = coarsest_first([*forms, *([reference] if reference else [])])
        units.append(Unit(path=path, forms=every, block=block, cost=cost))
    return sorted(units, key=lambda unit: -1 if unit.block is None else unit.block)


def _head_cost(blocks: Blocks | None, layers: Sequence[Any]) -> float:
    """Return the time of the head in layers, by the sizes of their weights."""
    if blocks is None or not layers:
        return 0.0
    sizes = [sum(array.size for _, array in tree_flatten(layer.parameters())) for layer in layers]
    states = blocks.begin(mx.array([[0]])).hidden
    return blocks.vocabulary * int(states.shape[-1]) * len(layers) / float(max(1, sum(sizes)))


def _apart(plain: Sequence[mx.array], others: Sequence[mx.array]) -> float:
    """Return the mean squared difference of pairs of arrays relative to the first's square."""
    parts = []
    for first, second in zip(plain, others, strict=True):
        wide = first.astype(mx.float32)
        size = mx.maximum(mx.square(wide).mean(), 1e-30)
        parts.append(mx.square(wide - second.astype(mx.float32)).mean() / size)
    mean: Any = mx.stack(parts).mean()
    return float(mean.item())


def _fits_twice(arrays: Iterable[mx.array]) -> bool:
    """Return whether arrays fit into the device's memory along with float32 copies."""
    room = recommended_working_set()
    if mx.default_device() == mx.Device(mx.cpu) or room is None:
        return True
    return sum(array.nbytes + 4 * array.size for array in arrays) <= _ROOM_SHARE * room


@contextmanager
def _fit_to_compute(model: Any) -> Iterator[Callable[[Any], mx.array]]:
    """Have a model compute in float32 within the block, where that fits in memory.

    Rounding to 16 bits differs from one forward to the next by as much as a wide form changes the
    output; and CPUs only emulate it.

    Yields:
        A function that returns a module's original weight.
    """
    before = dict(tree_flatten(model.parameters()))
    weights = {id(module): module["weight"] for module in model.modules() if "weight" in module}
    if _fits_twice(before.values()):
        widen(model)
    try:
        yield lambda module: weights[id(module)]
    finally:
        model.update(tree_unflatten(list(before.items())))
