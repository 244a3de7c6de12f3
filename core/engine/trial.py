"""Rows tried together at load, on three short prompts, before anyone's answer depends on it.

mlx-lm computes some architectures wrongly in a batch, or not at all: padding gets into recurrent
state, masks and positions do not fit caches of different lengths, caches cannot be merged. Here the
engine's own runner takes rows through what happens to them when they are served: prompts of
different lengths computed together and in chunks, a row that joins late, rows that leave. Their
log-probabilities are compared with those of each text by itself. The fastest way that gives the
same is used; what raises or differs is not.

Letters: T tokens, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList, KVCache, RotatingKVCache, make_prompt_cache

from core.engine.batch import BatchRunner
from core.engine.device import device_name, is_out_of_memory
from core.engine.logprobs import Reading
from core.engine.request import SamplingParams
from core.fit.batching import Batching, BatchMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SAMPLE = (
    "The quick brown fox jumps over the lazy dog. In 1815, three ships left the harbour of a small "
    "town; only one of them came home, and its captain never said a word about the other two."
)
"""The text of the trial: a real one, for which models predict clear winners."""

# Prompt and answer of each row, in tokens: a long row, a short one beside it, and one that comes
# when the first token is there. They run as two, as three, as the other two, and as one.
_LENGTHS = ((16, 4), (4, 4), (6, 3))
_CHUNK = 10  # prompt tokens of each row in one step; the long prompt takes two
# A sliding window of up to so many tokens is filled; longer ones would take too long to fill.
_LONGEST_WINDOW = 128
# Faults that only appear in prompts of thousands of tokens. `make test-families` finds them on tiny
# models.
_KNOWN = {
    "minimax_m3_vl": "cuts its sparse attention into blocks by place in the cache, "
    "and shorter rows have other places in a batch",
}
_TOP = 32  # likeliest tokens whose log-probabilities are compared
_HALF = (mx.float16, mx.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """How much log-probabilities may differ, in their standard deviations over the vocabulary.

    A deviation and not a nat is the unit, because the logits of small models are nearly flat.
    """

    always: float
    """Largest difference that is always accepted."""
    most: float
    """Larger ones never are. In between, the limit is a multiple of the model's own rounding."""


_SINGLE = Tolerance(always=5e-4, most=5e-3)
_ROUNDED = Tolerance(always=0.03, most=0.25)
_NOISE = 6.0  # that multiple


def try_batching(model: Any, tokens: Sequence[int], *, kind: str) -> Batching:
    """Return how rows can run together on a model.

    Args:
        model: an mlx-lm model that has computed a step.
        tokens: those of `SAMPLE`.
        kind: the architecture's name, for the reason.

    Raises:
        Exception: the device failed, which says nothing about the model (`is_passing`).
    """
    if why := _KNOWN.get(type(model).__module__.rpartition(".")[2]):
        return Batching(mode="serial", reason=f"The architecture {kind} {why}.")
    trial = _Trial(model, tokens)
    unpadded = "keeps a recurrent or convolutional state, which cannot be padded"
    if _may_pad(make_prompt_cache(model)):
        problem = trial.problem("padded")
        if problem is None:
            return Batching(mode="padded")
        unpadded = "gives other results when prompts are padded"
    problem = trial.problem("joined")
    if problem is None:
        return Batching(mode="joined", reason=f"The architecture {kind} {unpadded}.")
    return Batching(mode="serial", reason=f"The architecture {kind} {problem}.")


def is_passing(error: Exception) -> bool:
    """Return whether an error comes from the device as it is now: memory, a lost or slow GPU."""
    text = str(error).lower()
    return is_out_of_memory(error) or (
        isinstance(error, RuntimeError)
        and any(word in text for word in ("command buffer", "timeout", "cuda error"))
    )


def _rounds(model: Any) -> bool:
    """Return whether a model is computed with less than float32's precision.

    GPUs may multiply float32 with fewer digits (TF32).
    """
    half = any(array.dtype in _HALF for _, array in tree_flatten(model.parameters()))
    return half or device_name() != "cpu"


def _may_pad(caches: Sequence[Any]) -> bool:
    """Return whether all caches are of attention: recurrent and convolutional state takes padding.

    What is not known counts as state.
    """
    inner = [each for cache in caches for each in _leaves(cache)]
    return all(type(cache) in (KVCache, RotatingKVCache) for cache in inner)


def _leaves(cache: Any) -> list[Any]:
    if isinstance(cache, CacheList):
        return [leaf for inner in cache.caches for leaf in _leaves(inner)]
    return [cache]


@dataclass(frozen=True, kw_only=True)
class _Text:
    """A row of the trial."""

    prompt: list[int]
    """Its prompt."""
    answer: list[int]
    """What it is made to generate."""


class _Trial:
    """Compares rows that run together with the same texts alone."""

    def __init__(self, model: Any, tokens: Sequence[int]) -> None:
        self._model = model
        self._texts = _texts(tokens, _window(make_prompt_cache(model)))
        self._tolerance = _ROUNDED if _rounds(model) else _SINGLE
        self._at_once = [self._alone(text, stepwise=False) for text in self._texts]
        self._stepwise: list[NDArray[Any]] | None = None  # computed when it is needed

    def problem(self, mode: BatchMode) -> str | None:
        """Return what is wrong with running rows in this way, as what follows "it"; None: nothing.

        Raises:
            Exception: the device failed.
        """
        try:
            found = self._together(mode)
        # Foreign code in a case that it may not know: whatever it raises, rows cannot run so.
        except Exception as error:
            if is_passing(error):
                raise
            return f"fails in a batch ({one_line(error)})"
        same = self._off(found, self._at_once) <= self._tolerance.always or self._near(found)
        return None if same else "gives other results in a batch than alone"

    def _near(self, found: list[list[_Seen]]) -> bool:
        """Return whether a difference can be explained by the model's rounding."""
        if self._stepwise is None:
            self._stepwise = [self._alone(text, stepwise=True) for text in self._texts]
        rounding = self._off(_reread(found, self._at_once), self._stepwise)
        allowed = max(_NOISE * rounding, self._tolerance.always)
        return self._off(found, self._stepwise) <= min(allowed, self._tolerance.most)

    def _off(self, found: list[list[_Seen]], wanted: list[NDArray[Any]]) -> float:
        """Return how far rows are off, in standard deviations of log-probabilities.

        In half precision a row counts by the two neighbouring tokens that are worst: experts that
        are chosen by a hair's breadth may change at one token by rounding, while a fault stays.
        """
        worst = 0.0
        for seen, row in zip(found, wanted, strict=True):
            errors = [_error(each, at) for each, at in zip(seen, row, strict=True)]
            if self._tolerance is _ROUNDED:
                errors = [min(pair) for pair in pairwise(errors)]
            worst = max([worst, *errors])
        return worst

    def _alone(self, text: _Text, *, stepwise: bool) -> NDArray[Any]:
        """Return the log-probabilities at each token of an answer, from plain caches. [T, V].

        Args:
            text: prompt and answer.
            stepwise: token by token, as `mlx_lm.generate` does it; else all tokens at once.
        """
        caches = make_prompt_cache(self._model)
        first, rest = text.prompt, text.answer[:-1]
        calls = [first[:-1], first[-1:], *([token] for token in rest)]
        if not stepwise:
            calls = [[*first, *rest]]
        logits = [self._model(mx.array([call]), cache=caches)[0] for call in calls]
        answers = mx.concatenate(logits)[-len(text.answer) :].astype(mx.float32)
        return np.array(answers - mx.logsumexp(answers, axis=-1, keepdims=True))

    def _together(self, mode: BatchMode) -> list[list[_Seen]]:
        """Return what each row saw when all rows ran together."""
        longest = len(self._texts[0].prompt)
        runner = BatchRunner(
            self._model, eos_ids=(), cap=len(self._texts), most_prefill_tokens=longest, mode=mode
        )
        seen: dict[int, list[_Seen]] = {}
        *texts, late = self._texts
        try:
            for text in texts:
                seen[_insert(runner, text)] = []
            while len(runner):
                step = runner.step(2 * max(_CHUNK, longest // 2))
                for token in step.tokens:
                    assert token.reading is not None
                    seen[token.row].append(_Seen(token=token.token, reading=token.reading))
                if step.tokens and len(seen) < len(self._texts):
                    seen[_insert(runner, late)] = []
        finally:
            _close(runner)
        return [seen[row] for row in sorted(seen)]


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What a row saw at one token."""

    token: int
    """The token that it was made to choose."""
    reading: Reading
    """The log-probabilities of that token and of the likeliest ones."""


class _Script:
    """A constraint that allows one token at a time, so that rounding changes no answer."""

    complete = False

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = tokens
        self._heard = 0

    def accept(self, _token: int) -> None:
        """Note a token."""
        self._heard += 1

    def fill(self, mask: NDArray[Any], row: int) -> bool:
        """Allow the next one."""
        token = self._tokens[min(self._heard, len(self._tokens) - 1)]
        mask[row] = 0
        mask[row].view(np.uint32)[token // 32] = 1 << token % 32
        return True

    def restart(self, tokens: Sequence[int]) -> None:
        """Go back."""
        self._heard = len(tokens)


def _insert(runner: BatchRunner, text: _Text) -> int:
    return runner.insert(
        [text.prompt],
        max_tokens=len(text.answer),
        sampling=SamplingParams(temperature=0.0),
        constraint=_Script(text.answer),
        logprobs=_TOP,
    )


def _close(runner: BatchRunner) -> None:
    try:
        runner.close()
    # A step that failed may fail again when it is waited for.
    except RuntimeError:
        return


def _texts(tokens: Sequence[int], window: int) -> list[_Text]:
    """Return the rows, each with another part of the tokens.

    Args:
        tokens: as many as there are; they are repeated.
        window: tokens of the smallest sliding window that the long row is to fill; 0: there is
            none.
    """
    texts, start = [], 0
    (longest, its_answer), *others = _LENGTHS
    for prompt, answer in ((max(longest, window + 4), its_answer), *others):
        some = [tokens[n % len(tokens)] for n in range(start, start + prompt + answer)]
        texts.append(_Text(prompt=some[:prompt], answer=some[prompt:]))
        start += prompt + answer
    return texts


def _window(caches: Sequence[Any]) -> int:
    """Return the smallest sliding window that is short enough to be filled, or 0."""
    leaves = (leaf for cache in caches for leaf in _leaves(cache))
    sizes = (leaf.max_size for leaf in leaves if isinstance(leaf, RotatingKVCache))
    return min((size for size in sizes if size <= _LONGEST_WINDOW), default=0)


def _error(seen: _Seen, wanted: NDArray[Any]) -> float:
    """Return the root mean square over the tokens that were seen; infinite: it is not a number."""
    pairs = [(seen.token, seen.reading.chosen), *seen.reading.top]
    ids, values = np.array([each for each, _ in pairs]), np.array([value for _, value in pairs])
    finite = wanted[np.isfinite(wanted)]
    spread = float(finite.std()) if finite.size else 0.0
    off = float(np.sqrt(np.mean((values - wanted[ids]) ** 2))) / max(spread, 1e-12)
    return off if np.isfinite(off) else float("inf")


def _reread(found: list[list[_Seen]], rows: list[NDArray[Any]]) -> list[list[_Seen]]:
    """Return the same tokens with the log-probabilities of other runs, each [T, V]."""
    return [
        [_read(each, at) for each, at in zip(seen, row, strict=True)]
        for seen, row in zip(found, rows, strict=True)
    ]


def _read(seen: _Seen, row: NDArray[Any]) -> _Seen:
    top = tuple((token, float(row[token])) for token, _ in seen.reading.top)
    return _Seen(token=seen.token, reading=Reading(chosen=float(row[seen.token]), top=top))


def one_line(error: Exception) -> str:
    """Return what an error says, with its type, as part of a sentence."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 200 else f"{text[:197]}..."
