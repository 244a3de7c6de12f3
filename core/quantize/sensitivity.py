"""How much a model's output suffers from each tensor in each form, and from several together.

One tensor at a time is replaced by what its packed form decodes to, and the KL divergence of the
model's output from the original output is measured on calibration rows. The layers before the
changed one are not computed again: their output is kept. Of the reference only four numbers per
token and its last hidden states are kept, not its logits: where the head is affine (z = W h + b),
with p the original probabilities and h0 the hidden states without the change,

    KL(h) - KL(h0) = logsumexp(z) - logsumexp(z0) - c (h - h0),    c = W' p.

Measured values are exact; which forms are measured, and how the others follow, says `scaling`.

`B` rows, `T` tokens, `N` = B T tokens, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten

from core.engine.blocks import Blocks, States
from core.progress import OnProgress, Progress, ignore_progress
from core.quantize.form import Form
from core.quantize.scaling import SHARE, Unit, coarsest_first, estimated, planned
from core.quantize.sweep_store import Fact, Record, Sweep, SweepKey

Candidates = Mapping[str, Sequence[Form]]
"""For each module path the forms that its `weight` can take."""

_CHUNK_BYTES = 64 * 10**6
_LEAST_CHUNK = 16
_KEPT_BYTES = 4 * 10**9  # of the reference and of the states before a layer
_AFFINE = 1e-4  # relative


class SweepStopped(Exception):
    """The caller stopped a sweep; what was measured is in its record."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who follows a sweep."""

    on_progress: OnProgress = ignore_progress
    """Called after every measurement; its unit is the time of one layer."""
    on_note: Callable[[str], None] = lambda _line: None
    """Called with what is worth knowing, a sentence each."""
    should_stop: Callable[[], bool] = lambda: False
    """Checked before every measurement."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Divergence of a changed model from the original over calibration rows."""

    kl: float
    """Mean KL divergence in nats per token."""
    error: float | None
    """Its standard error over rows; None: a single row."""


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

    On a CPU the model is computed in float32; its arrays are restored afterwards.

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
        SweepStopped: `watch.should_stop` said so.
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
        entries=estimated(units, record.facts, reference=key.reference),
    )


def measure_together(
    model: Any, blocks: Blocks | None, forms: Mapping[str, Form], rows: Sequence[mx.array]
) -> Loss:
    """Return the divergence of a model whose tensors are packed together.

    On a CPU the model is computed in float32; its arrays are restored afterwards.

    Args:
        model: the mlx-lm module with floating-point weights.
        blocks: the same model layer by layer, or None.
        forms: for each module path the form of its weight.
        rows: calibration tokens, batches [B, T].
    """
    modules = _modules(model, forms)
    with _fit_to_compute(model) as originals:
        meter = Meter(model, blocks, rows, heads=tuple(modules.values()))
        meter.settle()
        with ExitStack() as placed:
            for path, module in modules.items():
                weight = rounded(originals(module), forms[path]).astype(module.weight.dtype)
                placed.enter_context(_placed(module, weight))
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
        with ExitStack() as placed:
            for unit in self._units if self._reference else ():
                placed.enter_context(self._in_form(unit, self._reference))
            base = meter.settle()
            if self._record.base_kl is None:
                self._record.set_base(base, meter.tokens)
            for unit in outside:
                self._measure(unit, meter.outside)
            for index in range(len(blocks.layers) if blocks else 0):
                for unit in self._units:
                    if unit.block == index:
                        self._measure(unit, meter.inside)
                meter.step()

    def _measure(self, unit: Unit, measure: Callable[[], Loss]) -> None:
        for form in self._missing(unit):
            if self._watch.should_stop():
                raise SweepStopped
            original = self._originals(self._modules[unit.path])
            noise = _noise(original, rounded(original, form))
            if form not in self._plan[unit.path]:
                self._record.add((unit.path, form), Fact(noise=noise))
                continue
            with self._in_form(unit, form):
                loss = measure()
            self._record.add((unit.path, form), Fact(noise=noise, kl=loss.kl, error=loss.error))
            self._report(unit)

    def _missing(self, unit: Unit) -> list[Form]:
        known, unmeasured = self._record.facts, self._unmeasured(unit)
        return [f for f in unit.forms if f in unmeasured or (unit.path, f) not in known]

    def _unmeasured(self, unit: Unit) -> list[Form]:
        facts = self._record.facts
        known = {form: facts.get((unit.path, form)) for form in self._plan[unit.path]}
        return [form for form, fact in known.items() if fact is None or fact.kl is None]

    @contextmanager
    def _in_form(self, unit: Unit, form: Form | None) -> Iterator[None]:
        module = self._modules[unit.path]
        weight = rounded(self._originals(module), form) if form else self._originals(module)
        with _placed(module, weight.astype(module.weight.dtype)):
            yield

    def _report(self, unit: Unit) -> None:
        self._done += unit.cost
        done, total = round(100 * self._done), round(100 * self._left)
        task = f"measuring {unit.path}"
        self._watch.on_progress(Progress(task=task, done=done, total=total, unit="% of a forward"))


@dataclass(frozen=True, kw_only=True)
class _Target:
    """What the outputs for one batch are compared with."""

    shape: tuple[int, ...]
    """B and T."""
    original: mx.array
    """Last hidden states of the original, [N, D]."""
    hidden: mx.array
    """Those of the baseline, [N, D]."""
    mean: mx.array | None
    """c: what the original expects of a change of the logits, [N, D]; None: general head."""
    level: mx.array
    """logsumexp of the baseline's logits, [N]."""
    base: mx.array
    """KL of the baseline, [N]."""


class Meter:
    """Measures a model whose weights are changed by its caller. For one thread."""

    def __init__(
        self,
        model: Any,
        blocks: Blocks | None,
        rows: Sequence[mx.array],
        *,
        heads: Sequence[Any] = (),
        on_note: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Compute the original output. The weights are the original ones.

        Args:
            model: the mlx-lm module.
            blocks: the same model layer by layer, or None.
            rows: batches [B, T].
            heads: modules that may be part of the head, and may be changed.
            on_note: called with what is worth knowing.
        """
        self._model, self._blocks = model, blocks
        self._rows = list(rows)
        self._heads = [(module, module.weight) for module in heads]
        self._index = 0
        self._states: list[States] = []
        self._originals = []
        kept = 0
        for number, tokens in enumerate(self._rows):
            self._originals.append(self._final(tokens))
            kept += 4 * self._originals[-1].nbytes
            if kept > _KEPT_BYTES and number + 1 < len(self._rows):
                self._rows = self._rows[: number + 1]
                on_note(
                    f"The sweep uses {number + 1} of {len(rows)} calibration batches: the states "
                    "of more do not fit in memory."
                )
                break
        self._targets: list[_Target] = []

    @property
    def tokens(self) -> int:
        """How many tokens it measures on."""
        return sum(batch.size for batch in self._rows)

    def settle(self) -> float:
        """Take the weights as they are now for the baseline; return its mean KL."""
        self._targets = []
        for tokens, original in zip(self._rows, self._originals, strict=True):
            hidden = self._final(tokens) if self._blocks or self._heads else original
            target = self._target(tokens, original, hidden)
            mx.eval(target.level, target.base, *([] if target.mean is None else [target.mean]))
            self._targets.append(target)
        if self._blocks:
            self._states = [self._blocks.begin(tokens) for tokens in self._rows]
            self._index = 0
        return _mean([(target.base, target.shape) for target in self._targets]).kl

    def inside(self) -> Loss:
        """Measure a change within the layer that the states stand before, above the baseline."""
        assert self._blocks is not None
        found = []
        for state, target in zip(self._states, self._targets, strict=True):
            hidden = _flat(self._blocks.finish(self._through(state, self._index)))
            values = self._above(hidden, target)
            mx.eval(values)
            found.append((values, target.shape))
        return _mean(found)

    def outside(self) -> Loss:
        """Measure a change anywhere, above the baseline."""
        return self._whole(above=True)

    def whole(self) -> Loss:
        """Measure the model as it is, against the original."""
        return self._whole(above=False)

    def _whole(self, *, above: bool) -> Loss:
        found = []
        for tokens, target in zip(self._rows, self._targets, strict=True):
            hidden = self._final(tokens)
            values = self._general(hidden, target.original)
            values = values - target.base if above else values
            mx.eval(values)
            found.append((values, target.shape))
        return _mean(found)

    def step(self) -> None:
        """Lead the states through the next layer."""
        assert self._blocks is not None
        after = [self._blocks.through(self._index, state) for state in self._states]
        mx.eval([state.hidden for state in after])
        self._states = after
        self._index += 1

    def _through(self, state: States, index: int) -> States:
        assert self._blocks is not None
        for each in range(index, len(self._blocks.layers)):
            state = self._blocks.through(each, state)
        return state

    def _final(self, tokens: mx.array) -> mx.array:
        """Return the last hidden states [N, D], or logits where the head is not known."""
        if self._blocks is None:
            found = _flat(self._model(tokens))
        else:
            states = self._through(self._blocks.begin(tokens), 0)
            found = _flat(self._blocks.finish(states))
        mx.eval(found)
        return found

    def _head(self, hidden: mx.array) -> mx.array:
        logits = hidden if self._blocks is None else self._blocks.head(hidden)
        return logits.astype(mx.float32)

    def _original_head(self, hidden: mx.array) -> mx.array:
        with ExitStack() as placed:
            for module, weight in self._heads:
                placed.enter_context(_placed(module, weight))
            return self._head(hidden)

    def _target(self, tokens: mx.array, original: mx.array, hidden: mx.array) -> _Target:
        affine = self._is_affine(hidden)
        levels, means, bases = [], [], []
        for part in self._chunks(hidden):
            logps = _normal(self._original_head(original[part]))
            (logits,), (mean,) = mx.vjp(self._head, [hidden[part]], [mx.exp(logps)])
            levels.append(mx.logsumexp(logits, axis=-1))
            bases.append(_divergence(logps, _normal(logits)))
            means.append(mean if affine else mx.zeros((0,)))
            mx.eval(levels[-1], bases[-1], means[-1])
        return _Target(
            shape=tuple(tokens.shape),
            original=original,
            hidden=hidden,
            mean=mx.concatenate(means) if affine else None,
            level=mx.concatenate(levels),
            base=mx.concatenate(bases),
        )

    def _above(self, hidden: mx.array, target: _Target) -> mx.array:
        """Return how much more hidden states diverge than the baseline's [N]."""
        if target.mean is None:
            return self._general(hidden, target.original) - target.base
        levels = [mx.logsumexp(self._head(hidden[part]), axis=-1) for part in self._chunks(hidden)]
        expected = (target.mean * (hidden - target.hidden).astype(mx.float32)).sum(axis=-1)
        return mx.concatenate(levels) - target.level - expected

    def _general(self, hidden: mx.array, original: mx.array) -> mx.array:
        """Return the KL of hidden states, through the head as it is now, from the original [N]."""
        found = []
        for part in self._chunks(hidden):
            logps = _normal(self._original_head(original[part]))
            found.append(_divergence(logps, _normal(self._head(hidden[part]))))
            mx.eval(found[-1])
        return mx.concatenate(found)

    def _chunks(self, hidden: mx.array) -> list[slice]:
        wide = hidden.shape[-1] if self._blocks is None else self._blocks.vocabulary
        size = max(_LEAST_CHUNK, _CHUNK_BYTES // (4 * wide))
        return [slice(start, start + size) for start in range(0, hidden.shape[0], size)]

    def _is_affine(self, hidden: mx.array) -> bool:
        first, second = hidden[:1], hidden[-1:] * 3
        middle = self._head((first + second) / 2)
        expected = (self._head(first) + self._head(second)) / 2
        size = mx.abs(expected).max()
        return bool((mx.abs(middle - expected).max() <= _AFFINE * size).item())


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
    return blocks.vocabulary * int(states.shape[-1]) * len(layers) / max(1, sum(sizes))


def _noise(weight: mx.array, packed: mx.array) -> float:
    plain = weight.astype(mx.float32)
    size = mx.square(plain).mean()
    return float((mx.square(plain - packed).mean() / mx.maximum(size, 1e-30)).item())


@contextmanager
def _placed(module: Any, weight: mx.array) -> Iterator[None]:
    """Have a module use another weight within the block."""
    before = module.weight
    try:
        module.weight = weight
        yield
    finally:
        module.weight = before


@contextmanager
def _fit_to_compute(model: Any) -> Iterator[Callable[[Any], mx.array]]:
    """Have a model compute in float32 on a CPU, whose half precision is emulated and slow.

    Yields:
        A function that returns a module's original weight.
    """
    before = dict(tree_flatten(model.parameters()))
    weights = {id(module): module["weight"] for module in model.modules() if "weight" in module}
    if mx.default_device() == mx.Device(mx.cpu):
        wide = [
            (path, array.astype(mx.float32))
            for path, array in before.items()
            if mx.issubdtype(array.dtype, mx.floating)
        ]
        model.update(tree_unflatten(wide))
    try:
        yield lambda module: weights[id(module)]
    finally:
        model.update(tree_unflatten(list(before.items())))


def _normal(logits: mx.array) -> mx.array:
    """Return log-probabilities [.., V]."""
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


def _divergence(logps: mx.array, others: mx.array) -> mx.array:
    """Return KL(p || q) of log-probabilities [N, V] as [N].

    p and q both sum to 1, so that sum p (e^d - 1) = 0 for d = log q - log p: no term of the sum
    below is negative, and rounding stays small beside it.
    """
    apart = others - logps
    return (mx.exp(logps) * (mx.expm1(apart) - apart)).sum(axis=-1)


def _flat(states: mx.array) -> mx.array:
    return states.reshape(-1, states.shape[-1])


def _mean(parts: Sequence[tuple[mx.array, tuple[int, ...]]]) -> Loss:
    """Return the mean of values per token [N] over all tokens, and its error over rows."""
    rows: list[float] = []
    for part, (count, *_) in parts:
        rows += part.reshape(count, -1).mean(axis=1).tolist()
    total = sum(float(part.sum().item()) for part, _ in parts)
    tokens = sum(part.size for part, _ in parts)
    middle = sum(rows) / len(rows)
    spread = sum((value - middle) ** 2 for value in rows)
    error = math.sqrt(spread / (len(rows) - 1) / len(rows)) if len(rows) > 1 else None
    return Loss(kl=total / tokens, error=error)
