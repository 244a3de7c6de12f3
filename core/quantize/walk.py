"""One walk through a model that rounds it block by block, on inputs that are already quantized.

Two streams of hidden states go through the layers: what the original makes of the calibration
text, and what the model makes of it whose earlier layers are rounded already. A layer is called
once for each. In the first call its matrices are found in the order in which they compute; in the
second each is rounded at the moment when it is called, so that those after it see its errors. In
memory are one block, its inputs, and one Hessian.

`B` rows, `T` tokens, `D` hidden size, `I` inputs of a matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn
from mlx_lm.models.switch_layers import SwitchLinear

from core.engine.blocks import Blocks, States, widen
from core.quantize.experts import ExpertOutcome, round_experts
from core.quantize.form import Form
from core.quantize.hessian import Moments, moments
from core.quantize.rounding import Outcome, Packed, round_clipped, round_fed_back, unpacked
from core.quantize.watch import EnoughError, watched
from core.quantize.write import require_finite

OnNote = Callable[[str], None]
OnBlock = Callable[[int, int], None]
"""Takes the number of blocks that are done, and of all."""

_PART = 2  # of the rows every second one says enough of the head's inputs
_LOOKUP_SHARE = 1.0  # weight of a tied embedding's errors when looked up, relative to the head's


@dataclass(kw_only=True)
class _Model:
    """The matrices that are to be rounded."""

    blocks: Blocks | None
    """The model layer by layer."""
    forms: Mapping[str, Form]
    """By path."""
    modules: dict[str, Any]
    """By path, in the model's order."""
    inside: list[dict[str, Any]]
    """For each layer those of its modules that are to be rounded, by path."""
    types: dict[str, mx.Dtype]
    """The type that each is stored in."""
    on_note: OnNote
    """Takes a sentence worth knowing."""

    @property
    def outside(self) -> dict[str, Any]:
        """Modules in no layer: embeddings and the head."""
        known = {path for some in self.inside for path in some}
        return {path: each for path, each in self.modules.items() if path not in known}

    def weight(self, path: str) -> mx.array:
        """Return a weight in its stored type.

        Raises:
            BadModelFiles: it is not finite.
        """
        weight: mx.array = self.modules[path].weight.astype(self.types[path])
        require_finite(f"{path}.weight", weight)
        return weight

    @property
    def row(self) -> Blocks:
        """The model layer by layer, where it is."""
        assert self.blocks is not None
        return self.blocks

    def fed_back(self, path: str, found: Moments) -> Packed:
        """Return a matrix rounded with error feedback; a note says where it is not."""
        return self._said(path, round_fed_back(self.weight(path), found, self.forms[path]))

    def clipped(self, path: str) -> Packed:
        """Return a matrix rounded to the nearest."""
        return self._said(path, round_clipped(self.weight(path), self.forms[path]))

    def on_experts(self, found: Mapping[str, ExpertOutcome]) -> None:
        """Say which experts were rounded plainly."""
        for path, outcome in found.items():
            for reason in dict.fromkeys(outcome.obstacles.values()):
                some = [str(e) for e, each in outcome.obstacles.items() if each == reason]
                which = f"expert {some[0]}" if len(some) == 1 else f"experts {', '.join(some)}"
                self.on_note(f"{path}: {which} rounded plainly: {reason}.")

    def _said(self, path: str, outcome: Outcome) -> Packed:
        if outcome.obstacle and self.forms[path].mode == "affine":
            self.on_note(f"{path} is rounded plainly: {outcome.obstacle}.")
        return outcome.packed

    def settle(self, path: str, packed: Packed) -> None:
        """Compute with a rounded weight from now on."""
        self.modules[path].weight = unpacked(packed, self.forms[path])


@dataclass(kw_only=True)
class _Calls:
    """What the matrices of one layer were called with in the original model."""

    inputs: dict[str, mx.array] = field(default_factory=dict)
    """By path, in the order of the calls; those that share an input share the array."""

    def take(self, path: str, inputs: mx.array, _rest: tuple[Any, ...]) -> None:
        """Keep the input of a first call."""
        self.inputs.setdefault(path, inputs)

    def together(self, path: str) -> list[str]:
        """Return the matrices with the same input as one of them, itself included."""
        own = self.inputs.get(path)
        if own is None:
            return [path]
        return [each for each, inputs in self.inputs.items() if inputs is own]


@dataclass(kw_only=True)
class _Rounding:
    """One layer's matrices being rounded, each when it is called."""

    model: _Model
    """Where they belong."""
    original: _Calls
    """What they were called with in the original model."""
    done: dict[str, Packed] = field(default_factory=dict)
    """By path."""

    def take(self, path: str, inputs: mx.array, rest: tuple[Any, ...]) -> None:
        """Round a matrix, and those that share its input, before it computes."""
        if path in self.done:
            return
        group = [each for each in self.original.together(path) if each not in self.done]
        kind = self.model.modules[path]
        if isinstance(kind, SwitchLinear) and rest:
            found = self._experts(group, inputs, rest[0])
        elif isinstance(kind, nn.Linear):
            found = self._matrices(group, inputs, self.original.inputs.get(path))
        else:
            return
        for each, packed in found.items():
            self.model.settle(each, packed)
            self.original.inputs.pop(each, None)
        self.done |= found

    def rest(self, paths: Iterable[str]) -> Iterator[tuple[str, Packed]]:
        """Yield the arrays of all matrices; those that were not called are rounded plainly."""
        missed = []
        for path in paths:
            if path not in self.done:
                missed.append(path)
                self.done[path] = self.model.clipped(path)
            yield path, self.done[path]
        if missed:
            self.model.on_note(
                f"Rounded without calibration, which did not reach them: {', '.join(missed)}."
            )

    def _matrices(
        self, group: list[str], inputs: mx.array, before: mx.array | None
    ) -> dict[str, Packed]:
        if before is not None and before.shape != inputs.shape:
            before = None
        found = moments(_flat(inputs), None if before is None else _flat(before))
        return {path: self.model.fed_back(path, found) for path in group}

    def _experts(self, group: list[str], inputs: mx.array, indices: mx.array) -> dict[str, Packed]:
        weights = {path: self.model.weight(path) for path in group}
        found = round_experts(weights, self.model.forms, inputs, indices)
        self.model.on_experts(found)
        return {path: outcome.packed for path, outcome in found.items()}


def fitted(
    model: Any,
    blocks: Blocks | None,
    forms: Mapping[str, Form],
    rows: Sequence[mx.array],
    *,
    on_note: OnNote,
    on_block: OnBlock,
    reopen: Callable[[], Any] | None = None,
) -> Iterator[tuple[str, Packed]]:
    """Yield each layer's path and packed arrays, block by block; the model is used up.

    Args:
        model: mlx-lm's module, with lazy weights.
        blocks: the same model layer by layer; None: its layers are not a row, and every weight is
            rounded without calibration.
        forms: how each layer is packed, by path; those not named stay as they are.
        rows: calibration tokens, each [B, T].
        on_note: takes sentences worth knowing.
        on_block: is called after each block; what it raises ends the walk.
        reopen: returns the same model anew, with lazy weights; used where the embedding is the
            head too, whose inputs are computed beforehand. None: the weights stay in memory then.

    Raises:
        BadModelFiles: a weight is infinite or not a number.
    """
    modules = {path: each for path, each in model.named_modules() if path in forms}
    known = _Model(
        blocks=blocks,
        forms=forms,
        modules=modules,
        inside=[] if blocks is None else _by_layer(model, blocks, modules),
        types={path: each.weight.dtype for path, each in modules.items()},
        on_note=on_note,
    )
    _say_modes(forms, modules, on_note)
    if blocks is None or all(forms[path].mode != "affine" for path in modules):
        yield from _without_calibration(known)
        return
    tokens = _one_length(rows, on_note)
    original = _begin(blocks, tokens)
    head = _head_of(known, tokens)
    yield from _embeddings(known, head, tokens, reopen)
    ours = _begin(blocks, tokens)
    for index in range(len(blocks.layers)):
        original, ours, found = _through(known, index, original, ours)
        yield from found.rest(known.inside[index])
        blocks.release(index)
        on_block(index + 1, len(blocks.layers))
    yield from _outside(known, head, original, ours)


def _without_calibration(known: _Model) -> Iterator[tuple[str, Packed]]:
    if known.blocks is None:
        known.on_note(
            "The layers of this architecture are not a plain row: weights are rounded without "
            "calibration."
        )
    for path in known.modules:
        yield path, known.clipped(path)


def _through(
    known: _Model, index: int, original: States, ours: States
) -> tuple[States, States, _Rounding]:
    """Return both streams after a layer, and its rounded matrices."""
    blocks, inside = known.row, known.inside[index]
    widen(blocks.layers[index])
    calls = _Calls()
    with watched(inside, calls.take):
        original = blocks.through(index, original)
        mx.eval(original.hidden, list(calls.inputs.values()))
    found = _Rounding(model=known, original=calls)
    with watched(inside, found.take):
        ours = blocks.through(index, ours)
        mx.eval(ours.hidden)
    return original, ours, found


def _embeddings(
    known: _Model, head: str | None, tokens: mx.array, reopen: Callable[[], Any] | None
) -> Iterator[tuple[str, Packed]]:
    """Yield the embeddings, which come before all layers."""
    for path, module in known.outside.items():
        if not isinstance(module, nn.Embedding):
            continue
        if path == head and known.forms[path].mode == "affine":
            packed = known.fed_back(path, _for_both_uses(_head_moments(known, tokens, reopen)))
        else:
            packed = known.clipped(path)
        known.settle(path, packed)
        yield path, packed


def _outside(
    known: _Model, head: str | None, original: States, ours: States
) -> Iterator[tuple[str, Packed]]:
    """Yield what comes after all layers: a head of its own, and what is never called."""
    for path, module in known.outside.items():
        if isinstance(module, nn.Embedding):
            continue
        if path != head or not isinstance(module, nn.Linear):
            yield path, known.clipped(path)
            continue
        only = {path: module}
        before, after = (_head_inputs(known.row, each, only)[1] for each in (original, ours))
        yield path, known.fed_back(path, moments(_flat(after), _flat(before)))


def _head_of(known: _Model, tokens: mx.array) -> str | None:
    """Return the path of the matrix that makes logits, if it is to be rounded."""
    states = known.row.begin(tokens[:1, :1])
    try:
        return _head_inputs(known.row, states, known.outside)[0]
    except LookupError:
        return None


def _head_inputs(
    blocks: Blocks, states: States, modules: Mapping[str, Any]
) -> tuple[str, mx.array]:
    """Return the path and the input of the first module that is called after all layers.

    Raises:
        LookupError: none is.
    """
    found: list[tuple[str, mx.array]] = []

    def take(path: str, inputs: mx.array, _rest: tuple[Any, ...]) -> None:
        found.append((path, inputs))
        raise EnoughError

    with suppress(EnoughError), watched(modules, take):
        blocks.head(blocks.finish(states))
    if not found:
        raise LookupError
    return found[0]


def _head_moments(known: _Model, tokens: mx.array, reopen: Callable[[], Any] | None) -> Moments:
    """Return the moments of the head's inputs in the original model, from a part of the rows."""
    blocks = known.row if reopen is None else Blocks(reopen(), tried=1)
    states = _begin(blocks, tokens[: max(1, len(tokens) // _PART)])
    for index in range(len(blocks.layers)):
        widen(blocks.layers[index])
        states = blocks.through(index, states)
        mx.eval(states.hidden)
        if reopen is not None:
            blocks.release(index)
    outside = known.outside
    if reopen is not None:
        outside = {p: each for p, each in blocks.model.named_modules() if p in outside}
    return moments(_flat(_head_inputs(blocks, states, outside)[1]))


def _for_both_uses(head: Moments) -> Moments:
    """Return the moments that an embedding is rounded by that is looked up and is the head."""
    size = len(head.hessian)
    mean = np.float32(_LOOKUP_SHARE * np.trace(head.hessian) / size)
    return replace(head, hessian=head.hessian + mean * np.eye(size, dtype=np.float32))


def _by_layer(model: Any, blocks: Blocks, modules: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return for each layer the modules in it, by path."""
    paths = {id(each): path for path, each in model.named_modules()}
    starts = [f"{paths[id(layer)]}." for layer in blocks.layers]
    return [{p: each for p, each in modules.items() if p.startswith(start)} for start in starts]


def _begin(blocks: Blocks, tokens: mx.array) -> States:
    states = blocks.begin(tokens)
    states = replace(states, hidden=states.hidden.astype(mx.float32))
    mx.eval(states.hidden)
    return states


def _one_length(rows: Sequence[mx.array], on_note: OnNote) -> mx.array:
    """Return the rows [B, T] of the most frequent length."""
    counts = Counter(each.shape[-1] for each in rows for _ in range(each.shape[0]))
    length = counts.most_common(1)[0][0]
    if left := counts.total() - counts[length]:
        on_note(f"Calibration leaves out {left} rows that are not {length} tokens long.")
    return mx.concatenate([each for each in rows if each.shape[-1] == length])


def _say_modes(forms: Mapping[str, Form], modules: Mapping[str, Any], on_note: OnNote) -> None:
    modes = Counter(forms[path].mode for path in modules)
    for mode, count in modes.items():
        if mode != "affine":
            on_note(f"{count} layers in {mode} are rounded to the nearest: fits are for affine.")


def _flat(inputs: mx.array) -> mx.array:
    return inputs.reshape(-1, inputs.shape[-1])
