"""Whether a model fits a machine: the sum of what it takes, beside what there is.

Two rules have to hold. The estimate of its peak must stay within the machine's budget, and what
`mlxbun serve` keeps free for rows (`core.fit.admission`) must, too: else it would turn such a
request away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.fit.admission import rows_bytes, transient_bytes
from core.fit.advice import advise
from core.fit.config import NO_LIMIT
from core.fit.host import sku_host
from core.fit.kv import GROWTH_TOKENS
from core.fit.machines import load_skus
from core.fit.measured import Measured, find_measured
from core.fit.memory import Computing, Estimator, Memory, quantized_note
from core.fit.speed import Prediction, predict

if TYPE_CHECKING:
    from core.figures import FigureStore
    from core.fit.batching import Batching, BatchingShelf
    from core.fit.candidate import Candidate
    from core.fit.host import Host
    from core.fit.weights import Storage

# The context that is asked about when nobody names one.
USUAL_CONTEXT = 8192
# That of the matrix of Macs that a server shows.
MATRIX_CONTEXT = 32_768
# What the engine keeps free for a step (core/engine/loader.py).
STEP_TOKENS = 512
STEP_ROWS = 8
# Without a window, lengths beyond this are not told apart.
_LONGEST = 2**27


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about a model."""

    context: int | None = None
    """Tokens of prompt and answer in each row; None: 8192, or the model's window if smaller."""
    rows: int = 1
    """Rows that run together, from 1."""
    kv_bits: int | None = None
    """Bits of a quantized KV cache, 8 or 4; None: it is not quantized."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What a model takes on a machine, and how fast it would be."""

    candidate: Candidate
    """The model."""
    host: Host
    """The machine."""
    context: int
    """Tokens of each row."""
    rows: int
    """Rows that run together."""
    kv_bits: int | None
    """Bits of a quantized KV cache; None: it is not quantized."""
    storage: Storage
    """How the weights lie in memory."""
    kv_float_bytes: int
    """Bytes of a number in the type that the KV cache has, before it is quantized."""
    kv_token_bytes: int
    """What one more token adds to the KV of a row at this context."""
    memory: Memory
    """What it takes at its widest moment."""
    reserved_bytes: int
    """What `mlxbun serve` wants to have for these rows."""
    max_context: int
    """Most tokens of each row that fit; 0: none do. `NO_LIMIT`: any number."""
    window: int
    """Tokens that the model was made for; `NO_LIMIT`: it does not tell."""
    prediction: Prediction | None
    """How fast it would be; None: the machine's bandwidth is not known."""
    measured: Measured | None
    """What was measured of it on this machine; None: nothing."""
    notes: tuple[str, ...]
    """What is not exact, one sentence each."""
    batching: Batching | None = None
    """How rows run together on it, as an engine tried it on this machine; None: none did."""
    advice: str | None = None
    """How to make it fit, as what follows "use"; None: it fits."""

    @property
    def needed_bytes(self) -> int:
        """What has to be there: the estimate, or what the engine insists on, if that is more."""
        files = self.candidate.weights.files_bytes  # the engine refuses files beyond its budget
        return max(self.memory.total_bytes, self.reserved_bytes, files)

    @property
    def fits(self) -> bool:
        """Whether it does."""
        return self.context <= self.window and self.needed_bytes <= self.host.usable_bytes

    @property
    def decode(self) -> float | None:
        """Tokens a second of all rows: measured, else predicted, else unknown."""
        if self.measured and self.measured.decode is not None:
            return self.measured.decode
        return self.prediction.decode if self.prediction else None


class Assessor:
    """Assesses one model on any number of machines; what was replayed once is remembered."""

    def __init__(
        self,
        candidate: Candidate,
        *,
        figures: FigureStore | None = None,
        shelf: BatchingShelf | None = None,
    ) -> None:
        """Take the model.

        Args:
            candidate: the model.
            figures: what was measured on this machine; None: do not look.
            shelf: what engines tried on this machine; None: do not look.
        """
        self._shelf = shelf
        self._candidate = candidate
        self._figures = figures
        self._estimators: dict[Computing, Estimator] = {}
        self._longest: dict[tuple[Computing, int, int], int] = {}

    @property
    def window(self) -> int:
        """Tokens that the model was made for."""
        return self._candidate.shape.context_window or NO_LIMIT

    def assess(self, host: Host, question: Question) -> Assessment:
        """Return what the model takes on a machine, and how fast it would be.

        Raises:
            MlxbunError: the benchmark store cannot be read.
        """
        found = self._assess(host, question, self.context(question))
        if found.fits:  # caches grow in steps: the last one may fit in part
            return replace(found, max_context=max(found.context, found.max_context))
        return replace(found, advice=advise(self, found, question))

    def _assess(self, host: Host, question: Question, context: int) -> Assessment:
        estimator = self._estimator(host, question)
        batching = self._batching(host)
        return Assessment(
            candidate=self._candidate,
            host=host,
            context=context,
            rows=question.rows,
            kv_bits=question.kv_bits,
            storage=estimator.computing.storage,
            kv_float_bytes=estimator.form.float_bytes,
            kv_token_bytes=estimator.token_bytes(context),
            memory=estimator.memory(context=context, rows=question.rows),
            reserved_bytes=reserved_bytes(estimator, context, question.rows),
            max_context=self.max_context(host, question),
            window=self.window,
            prediction=predict(estimator, host.speed, context=context, rows=question.rows),
            measured=self._measured(host, context, question.rows),
            notes=self._notes(host, estimator, batching, question),
            batching=batching,
        )

    def context(self, question: Question) -> int:
        """Return the tokens of each row that are asked about."""
        return question.context or min(USUAL_CONTEXT, self.window)

    def needed_bytes(self, host: Host, question: Question) -> int:
        """Return what has to be there."""
        estimator = self._estimator(host, question)
        return _needed(estimator, self.context(question), question.rows)

    def max_context(self, host: Host, question: Question) -> int:
        """Return the most tokens of each row that fit; `NO_LIMIT`: any number."""
        estimator = self._estimator(host, question)
        key = (estimator.computing, question.rows, host.usable_bytes)
        if key not in self._longest:
            self._longest[key] = _longest(estimator, question.rows, host.usable_bytes, self.window)
        return self._longest[key]

    def matrix(self, context: int = MATRIX_CONTEXT) -> list[Assessment]:
        """Return the model on every Mac, at a context or at its window where that is smaller."""
        question = Question(context=min(context, self.window))
        return [self.assess(sku_host(sku), question) for sku in load_skus()]

    def _estimator(self, host: Host, question: Question) -> Estimator:
        computing = Computing(
            gpu=host.gpu,
            storage=host.storage(self._candidate.weights),
            compiled=host.compiled,
            kv_bits=question.kv_bits,
        )
        if computing not in self._estimators:
            candidate = self._candidate
            self._estimators[computing] = Estimator(candidate.shape, candidate.weights, computing)
        return self._estimators[computing]

    def _measured(self, host: Host, context: int, rows: int) -> Measured | None:
        if self._figures is None or host.machine is None:
            return None
        return find_measured(
            self._figures, self._candidate, host.machine, context=context, rows=rows
        )

    def _batching(self, host: Host) -> Batching | None:
        if self._shelf is None or host.machine is None or self._candidate.folder is None:
            return None
        return self._shelf.find(self._candidate.folder, host.machine.backend)

    def _notes(
        self, host: Host, estimator: Estimator, batching: Batching | None, question: Question
    ) -> tuple[str, ...]:
        notes = [host.note, quantized_note(estimator)]
        if question.rows > 1 and batching and batching.lane == "serial":
            notes.append(f"The {question.rows} rows would run one after the other on this model.")
        return (*self._candidate.notes, *filter(None, notes))


def reserved_bytes(estimator: Estimator, context: int, rows: int) -> int:
    """Return what an engine wants to have to start the last of these rows."""
    step = transient_bytes(
        prefill_tokens=STEP_TOKENS,
        rows=STEP_ROWS,
        hidden=estimator.shape.hidden,
        vocabulary=estimator.shape.vocabulary,
    )
    return estimator.weights_bytes + step + rows_bytes(estimator.kv, [context] * rows)


def _needed(estimator: Estimator, context: int, rows: int) -> int:
    memory = estimator.memory(context=context, rows=rows)
    files = estimator.weights.files_bytes
    return max(memory.total_bytes, reserved_bytes(estimator, context, rows), files)


def _longest(estimator: Estimator, rows: int, usable: int, window: int) -> int:
    """Return the most tokens of each row that fit, in steps of those that caches grow by."""
    if _fits(estimator, min(window, _LONGEST), rows, usable):
        return window
    low, high = 0, -(-min(window, _LONGEST) // GROWTH_TOKENS)
    while high - low > 1:
        middle = (low + high) // 2
        fits = _fits(estimator, middle * GROWTH_TOKENS, rows, usable)
        low, high = (middle, high) if fits else (low, middle)
    return low * GROWTH_TOKENS


def _fits(estimator: Estimator, context: int, rows: int, usable: int) -> bool:
    """Return whether all that is needed is there; the rule that costs nothing is asked first."""
    if reserved_bytes(estimator, context, rows) > usable:
        return False
    return _needed(estimator, context, rows) <= usable
