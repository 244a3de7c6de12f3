"""What a model takes at its widest moment: weights, KV, and what a step needs beside them.

The sum is what `mx.get_peak_memory` shows of an engine that prefills its rows together, in chunks,
and then decodes them. `docs/fit.md` has the measured errors.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.fit.kv import KvShape
from core.fit.shapes import KvFormat
from core.fit.steps import Step, write_layers, write_logits
from core.fit.tape import CPU_LEAD, GPU_LEAD, Lead, Tape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.fit.shapes import Layer, ModelShape
    from core.fit.weights import Storage, Weights

# Prompt tokens that the engine computes in one step when nobody waits (core/engine/worker.py).
PREFILL_CPU = 512
PREFILL_GPU = 2048
# Layers that a step is replayed for; the others only add what they keep.
_REPLAYED = 8


@dataclass(frozen=True, kw_only=True)
class Computing:
    """How an engine would compute."""

    gpu: bool
    """Whether MLX's fused kernels run."""
    storage: Storage
    """How the weights lie in memory."""
    compiled: bool = True
    """Whether `mx.compile` fuses operations."""
    kv_bits: int | None = None
    """Bits of a quantized KV cache; None: it is not quantized."""

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens of one step, over all rows."""
        return PREFILL_GPU if self.gpu else PREFILL_CPU


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The bytes of rows that run together, at their widest moment."""

    weights_bytes: int
    """Weights as they lie in memory."""
    kv_bytes: int
    """KV caches and states of all rows."""
    transient_bytes: int
    """What the widest step needs beside both; loading the weights, where that is wider."""

    @property
    def total_bytes(self) -> int:
        """The sum."""
        return self.weights_bytes + self.kv_bytes + self.transient_bytes


class Estimator:
    """Estimates the memory of one model, computed in one way. Remembers what it has replayed."""

    def __init__(self, shape: ModelShape, weights: Weights, computing: Computing) -> None:
        self.shape = shape
        self.weights = weights
        self.computing = computing
        self.form = KvFormat(
            float_bytes=weights.float_bytes_in(computing.storage), bits=computing.kv_bits
        )
        self.kv = KvShape(layers=tuple(mixer.kept(self.form) for mixer in shape.mixers()))
        self._sample, self._others = _split(shape.layers)
        self._remembered: dict[Step, int] = {}

    @property
    def weights_bytes(self) -> int:
        """Weights as they lie in memory."""
        return self.weights.bytes_in(self.computing.storage)

    def token_bytes(self, context: int) -> int:
        """Return what the next token adds to the KV of a row of `context` tokens."""
        return sum(layer.bytes(context + 1) - layer.bytes(context) for layer in self.kv.layers)

    def memory(self, *, context: int, rows: int) -> Memory:
        """Return what rows of `context` tokens take together."""
        kv = self.kv.batch_bytes([context] * rows)
        steps = (self.prefill_bytes, self.decode_bytes, self.joining_bytes)
        widest = max(step(context, rows) for step in steps)
        return Memory(
            weights_bytes=self.weights_bytes,
            kv_bytes=kv,
            transient_bytes=max(widest - kv, self._loading_bytes() - kv, 0),
        )

    def prefill_bytes(self, context: int, rows: int) -> int:
        """Return KV and transients of the last chunk of a prompt that fills the context."""
        tokens = max(1, min(context, self.computing.prefill_tokens // rows))
        return self._step_bytes(self._step(rows, tokens, context - tokens))

    def decode_bytes(self, context: int, rows: int) -> int:
        """Return KV and transients of the first token after such a prompt."""
        return self._step_bytes(self._step(rows, 1, max(0, context - 1)))

    def joining_bytes(self, context: int, rows: int) -> int:
        """Return KV while the last row joins: half of the layers' caches are copied at once.

        The others are copied in the step that follows, one after another (core/engine/decode.py).
        """
        tape = Tape()
        sizes = [rows * KvShape(layers=(layer,)).row_bytes(context) for layer in self.kv.layers]
        before = [tape.given(size / 2) for size in sizes for _ in ("keys", "values")]
        soon = before[: len(sizes) // 2 * 2] if rows > 1 else []
        for place, old in enumerate(soon):
            room = tape.op(sizes[place // 2] / 2)
            tape.keep(tape.op(sizes[place // 2] / 2, room, old, dispatches=2, overwrites=True))
        for old in before[len(soon) :]:
            tape.keep(old)
        return tape.peak_bytes(self._lead)

    @property
    def _lead(self) -> Lead:
        return GPU_LEAD if self.computing.gpu else CPU_LEAD

    def _step(self, rows: int, tokens: int, before: int) -> Step:
        return Step(
            rows=rows,
            tokens=tokens,
            before=before,
            float_bytes=self.form.float_bytes,
            gpu=self.computing.gpu,
            compiled=self.computing.compiled,
            traits=self.weights.traits,
        )

    def _step_bytes(self, step: Step) -> int:
        if step not in self._remembered:
            self._remembered[step] = self._replay(step)
        return self._remembered[step]

    def _replay(self, step: Step) -> int:
        tape = self._tape_of(self._sample, step)
        if step.tokens == 1:
            write_logits(tape, self.shape.vocabulary, step=step)
        return tape.peak_bytes(self._lead) + self._kept_elsewhere(step)

    def _kept_elsewhere(self, step: Step) -> int:
        """Return what the layers that are not replayed keep."""
        each = {layer: self._tape_of([layer], step).kept_bytes() for layer in self._others}
        return sum(count * each[layer] for layer, count in self._others.items())

    def _tape_of(self, layers: Sequence[Layer], step: Step) -> Tape:
        tape = Tape()
        write_layers(tape, layers, step=step, form=self.form, hidden=self.shape.hidden)
        return tape

    def _loading_bytes(self) -> int:
        """Return what loading needs beside the weights, while the largest matrix is unpacked."""
        if self.computing.storage != "unpacked" or not self.weights.packed:
            return 0
        return self.weights.largest_unpacking_bytes


def quantized_note(estimator: Estimator) -> str | None:
    """Return what `--kv-bits` does not quantize, in one sentence; None: it quantizes everything."""
    if estimator.computing.kv_bits is None:
        return None
    plain = replace(estimator.form, bits=None)
    kept = [m for m in estimator.shape.mixers() if m.kept(estimator.form) == m.kept(plain)]
    kinds = sorted({mixer.kind for mixer in kept} - {"shared"})
    if not kinds:
        return None
    return f"Not quantized, because mlx-lm cannot: {', '.join(kinds)} layers."


def _split(layers: tuple[Layer, ...]) -> tuple[list[Layer], dict[Layer, int]]:
    """Return the layers to replay, every kind among them, and how many there are of the others."""
    start = max(0, len(layers) - _REPLAYED)
    sample, counts = list(layers[start:]), Counter(layers[:start])
    for layer in list(counts):
        if layer not in sample:
            sample.insert(0, layer)
            counts[layer] -= 1
    return sample, +counts
