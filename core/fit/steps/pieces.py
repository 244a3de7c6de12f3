"""The operations that layers share: norms, projections, rotations, caches, attention itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.fit.kv import GROWTH_TOKENS
from core.fit.shapes import Attention, Traits

if TYPE_CHECKING:
    from core.fit.shapes import KvFormat
    from core.fit.tape import Tape

_BOOL = 1  # bytes
# Head sizes for which MLX has a fused attention kernel on a GPU, for a chunk and for one token.
# Source: mlx/backend/metal/scaled_dot_product_attention.cpp, mlx 0.32; for 192 and 256 there is
# one that is slower than the chain, and not used.
_FUSED_CHUNK = (64, 72, 80, 96, 128)
_FUSED_TOKEN = (64, 96, 128, 256)
_FEW_TOKENS = 8


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the engine."""

    rows: int
    """B."""
    tokens: int
    """T, of each row."""
    before: int
    """Tokens that each row has already; S is these and T."""
    float_bytes: int
    """Bytes of a number in the type that the model computes in."""
    gpu: bool
    """Whether MLX's fused kernels run."""
    compiled: bool = True
    """Whether `mx.compile` fuses elementwise operations."""
    traits: Traits = field(default_factory=Traits)
    """How layers are built."""

    @property
    def decodes(self) -> bool:
        """Whether it is a step after the prompt: caches may grow, and rows join."""
        return self.tokens == 1

    @property
    def length(self) -> int:
        """S."""
        return self.before + self.tokens

    @property
    def numbers(self) -> int:
        """Bytes of one number for every token of the step."""
        return self.rows * self.tokens * self.float_bytes


class Pieces:
    """Writes the operations of one step onto a tape.

    Attributes:
        tape: where they go.
        step: whose they are.
        form: how caches keep numbers.
        ends: whether nothing is wanted of this layer but what it keeps.
    """

    def __init__(self, tape: Tape, step: Step, form: KvFormat) -> None:
        self.tape = tape
        self.step = step
        self.form = form
        self.ends = False
        self._masks: dict[int, int] = {}

    def norm(self, x: int, width: float) -> int:
        """Write an RMS norm: on a CPU squares, their mean, and two products."""
        size = width * self.step.numbers
        if self.step.gpu:
            return self.tape.op(size, x)
        squares = self.tape.op(size, x)
        mean = self.tape.op(self.step.numbers, squares, dispatches=9)
        return self.tape.op(size, x, mean, dispatches=6)

    def linear(self, x: int, width: float) -> int:
        """Write a projection to `width` numbers a token."""
        dispatches = 1 if self.step.gpu else 4
        return self.tape.op(width * self.step.numbers, x, dispatches=dispatches)

    def copy(self, x: int, width: float) -> int:
        """Write what brings heads back into one vector a token."""
        return self.tape.op(width * self.step.numbers, x, dispatches=2)

    def add(self, x: int, y: int, width: float) -> int:
        """Write a sum of two arrays of one size."""
        return self.tape.op(width * self.step.numbers, x, y, overwrites=True)

    def rotate(self, x: int, width: float) -> int:
        """Write RoPE: on a CPU angles, four products of halves, and their concatenation."""
        size = width * self.step.numbers
        if self.step.gpu:
            return self.tape.op(size, x)
        angles = self.tape.op(0, dispatches=26)
        halves = [self.tape.op(size / 2, x, angles, dispatches=3) for _ in range(4)]
        first = self.tape.op(size / 2, halves[0], halves[1], overwrites=True)
        second = self.tape.op(size / 2, halves[2], halves[3], overwrites=True)
        return self.tape.op(size, first, second, dispatches=2)

    def remember(self, new: int, per_token: int, window: int | None = None) -> int:
        """Write how a step's vectors go into a cache, and return what attention reads.

        A prompt's cache is allocated once, by its first chunk. One that decodes is copied when it
        grows and when rows join it.

        Args:
            new: the vectors.
            per_token: bytes that the cache keeps of each.
            window: most tokens that it keeps; None: all.
        """
        each = self.step.rows * per_token
        if window is not None:
            fresh = self._slide(each, new, window)
        else:
            fresh = self.tape.op(
                each * self.room, self._space(each), new, dispatches=3, overwrites=True
            )
        self.tape.keep(fresh)
        return fresh

    @property
    def room(self) -> int:
        """Return the tokens that a cache has room for after this step."""
        return _grown(self.step.length)

    def _space(self, each: int) -> int:
        """Write what a step's vectors are written into."""
        if self.step.before == 0:
            return self.tape.op(each * self.room, dispatches=2)
        if not self.step.decodes:
            return self.tape.given(each * self.room)
        old = self.tape.given(each * _grown(self.step.before))
        return self.tape.op(each * self.room, old, dispatches=5)

    def _slide(self, each: int, new: int, window: int) -> int:
        """Write how a cache of the last tokens goes on: it is copied every time."""
        old = self.tape.given(each * (self.seen(window) - self.step.tokens))
        if self.step.decodes:
            old = self.tape.op(each * (self.seen(window) - 1), old, dispatches=3)
        return self.tape.op(each * self.seen(window), old, new, dispatches=4)

    def seen(self, window: int | None = None) -> int:
        """Return how many tokens of a row attention looks at."""
        if window is None:
            return self.step.length
        return min(self.step.before, window - 1) + self.step.tokens

    def attend(self, q: int, k: int, v: int, shape: Attention) -> int:
        """Write attention: one kernel where there is one, else scores, softmax and products."""
        step, tape = self.step, self.tape
        out = shape.heads * shape.value_dim * step.numbers
        if step.gpu and is_fused(shape, step.tokens):
            return tape.op(out, q, k, v)
        scaled_bytes = shape.heads * shape.head_dim * step.numbers
        scaled = tape.op(scaled_bytes, q, dispatches=2, overwrites=True)
        size = self.scores_bytes(shape.heads, self.seen(shape.window))
        scores = tape.op(size, scaled, k, dispatches=5)
        scores = self.hide(scores, shape.heads, self.seen(shape.window))
        return tape.op(out, self._soften(scores, size), v, dispatches=4)

    def scores_bytes(self, heads: int, seen: int) -> int:
        """Return the bytes of one score for each query and each token that it sees."""
        return self.step.rows * heads * self.step.tokens * seen * self.step.float_bytes

    def hide(self, scores: int, heads: int, seen: int) -> int:
        """Write how the mask of this step, one for all layers of a kind, is laid over scores."""
        if seen not in self._masks:
            size = self.step.rows * self.step.tokens * seen * _BOOL
            self._masks[seen] = self.tape.op(size, dispatches=12)
        mask = self._masks[seen]
        size = self.scores_bytes(heads, seen)
        return self.tape.op(size, scores, mask, dispatches=3, overwrites=True)

    def _soften(self, scores: int, size: int) -> int:
        if not self.step.traits.sinks:
            return self.tape.op(size, scores, overwrites=True)
        wider = self.tape.op(size, scores, dispatches=4)  # with the column of sinks
        weights = self.tape.op(size, wider, overwrites=True)
        return self.tape.op(size, weights, dispatches=2)  # and without it


def is_fused(shape: Attention, tokens: int) -> bool:
    """Return whether MLX has one kernel for this attention on a GPU."""
    if shape.head_dim != shape.value_dim:
        return tokens <= _FEW_TOKENS and (shape.head_dim, shape.value_dim) == (192, 128)
    return shape.head_dim in (_FUSED_CHUNK if tokens > _FEW_TOKENS else _FUSED_TOKEN)


def _grown(tokens: int) -> int:
    """Return the tokens that a cache has room for."""
    return -(-tokens // GROWTH_TOKENS) * GROWTH_TOKENS
