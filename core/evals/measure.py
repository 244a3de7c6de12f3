"""How far models are from their original on held-out text.

The original's hidden states are computed once and kept; then one model after the other is, and both
heads turn the states into logits a chunk of tokens at a time. Log-probabilities are float32, sums
float64.

`T` tokens, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from core.engine.device import device_name, forget_arrays
from core.engine.split import chunk_tokens
from core.errors import BadModelFiles, UsageProblem
from core.evals.streams import How, Stream, Watch, open_stream
from core.evals.subjects import Subject
from core.evals.summary import Figures, Floats, compare, summarize
from core.evals.table import Comparison, Entry, ProofTable, Summary

SILENT = Watch()


class HeldOutText(Protocol):
    """Text that no quantization has seen, in tokens; `core.evals.heldout` returns ours."""

    @property
    def rows(self) -> Sequence[Any]:
        """Token ids of each sequence, at least two."""
        ...

    @property
    def domains(self) -> Sequence[str]:
        """The domain of each sequence."""
        ...

    @property
    def digest(self) -> str:
        """A hash of the text."""
        ...


def measure(
    original: Subject,
    candidates: Sequence[Subject],
    heldout: HeldOutText,
    *,
    how: How,
    watch: Watch = SILENT,
    vocabulary: int | None = None,
) -> ProofTable:
    """Compare models with their original.

    Args:
        original: the model that the others are to be like.
        candidates: the others. A `quantized` one is also compared with every `uniform` one.
        heldout: the text.
        how: how to compute.
        watch: who hears of it, and can end it.
        vocabulary: tokens that the models share: further logits are padding, and are left out.
            None: the models must have equally many logits.

    Raises:
        UsageProblem: the vocabularies differ, or the text is not of the original's tokens.
        BadModelFiles: a model cannot be opened, or gives logits that are not finite.
        StoppedError: the caller wanted an end.
    """
    notes: list[str] = []

    def note(line: str) -> None:
        notes.append(line)
        watch.on_note(line)

    text = _Text.of(heldout)
    work = _Work(text=text, how=how, watch=replace(watch, on_note=note), vocabulary=vocabulary)
    base = work.measured(original, None)
    found = [work.measured(each, base).without_arrays() for each in candidates]
    return ProofTable(
        entries=tuple(_entry(each, base) for each in (base, *found)),
        comparisons=tuple(_comparisons(found, base)),
        heldout=heldout.digest,
        length=max(row.size for row in text.rows),
        device=device_name(),
        notes=tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True, kw_only=True)
class _Text:
    """The held-out text as arrays."""

    rows: list[mx.array]
    """Tokens of each sequence [T + 1]."""
    inputs: list[mx.array]
    """All but the last of each [T]."""
    domains: list[str]
    """The domain of each sequence."""

    @classmethod
    def of(cls, heldout: HeldOutText) -> _Text:
        """Return a text as arrays.

        Raises:
            UsageProblem: a sequence predicts nothing.
        """
        rows = [mx.array(np.asarray(row, dtype=np.int32).reshape(-1)) for row in heldout.rows]
        if not rows or min(row.size for row in rows) < 2:
            raise UsageProblem("The held-out text has a sequence of less than two tokens.")
        return cls(rows=rows, inputs=[row[:-1] for row in rows], domains=list(heldout.domains))


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A model and what was measured of it."""

    subject: Subject
    """The model."""
    stream: Stream
    """What is left of it in memory."""
    figures: list[Figures]
    """Of each sequence."""

    def without_arrays(self) -> _Measured:
        """Return the same with the model's memory given back."""
        empty = replace(self.stream, hidden=_gone, head=_gone)
        found = replace(self, stream=empty)
        forget_arrays()
        return found


def _gone(_anything: Any) -> mx.array:
    raise AssertionError("this model was released")


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One comparison under way."""

    text: _Text
    how: How
    watch: Watch
    vocabulary: int | None

    def measured(self, subject: Subject, base: _Measured | None) -> _Measured:
        """Return a model's figures; without a base it is the original."""
        stream = open_stream(subject, self.text.inputs, self.how, self.watch)
        original = base.stream if base else stream
        size = self._shared(subject, stream, base)
        figures = []
        for index in range(len(self.text.rows)):
            self.watch.step()
            with _blaming(subject, base.subject if base else subject):
                figures.append(self._row(index, original, stream, size))
        return _Measured(subject=subject, stream=stream, figures=figures)

    def _shared(self, subject: Subject, stream: Stream, base: _Measured | None) -> int:
        """Return how many logits are compared.

        Raises:
            UsageProblem: the models have different vocabularies, or the text has other tokens.
        """
        others = base.stream.vocabulary if base else stream.vocabulary
        size = min(stream.vocabulary, others)
        if stream.vocabulary != others and (self.vocabulary is None or self.vocabulary > size):
            name = base.subject.name if base else subject.name
            raise UsageProblem(
                f"{subject.name} has a vocabulary of {stream.vocabulary} tokens, and {name} one of "
                f"{others}: their predictions cannot be compared.",
                hint="Compare models with the same tokenizer.",
            )
        size = size if self.vocabulary is None else min(size, self.vocabulary)
        highest = max(int(np.array(row).max()) for row in self.text.rows)
        if highest >= size:
            raise UsageProblem(
                f"The text has the token {highest}, but {subject.name} has the tokens 0 to "
                f"{size - 1}.",
                hint="Tokenize the text with the model's own tokenizer.",
            )
        return size

    def _row(self, index: int, original: Stream, stream: Stream, size: int) -> Figures:
        """Return the figures of a sequence."""
        row = self.text.rows[index]
        hidden, ours = original.hidden(index), stream.hidden(index)
        parts = []
        step = chunk_tokens(size)
        for start in range(0, ours.shape[0], step):
            chunk, targets = slice(start, start + step), row[start + 1 : start + step + 1]
            before = original.head(hidden[chunk])[..., :size]
            after = before if stream is original else stream.head(ours[chunk])[..., :size]
            parts.append(_tokens(before, after, targets))
        loss, kl, same = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Figures(domain=self.text.domains[index], loss=loss, kl=kl, same=same)


def _tokens(before: mx.array, after: mx.array, targets: mx.array) -> tuple[Floats, Floats, Floats]:
    """Return what the logits [T, V] of the original and of a model say of the targets [T].

    Returns:
        Negative log-likelihoods under the model, KL divergences, and where first choices agree.

    Raises:
        _NotFiniteError: some are NaN or infinite.
    """
    finite = mx.stack([mx.isfinite(before).all(), mx.isfinite(after).all()])
    log_p, log_q = _log_softmax(before), _log_softmax(after)
    kl = (mx.exp(log_p) * (log_p - log_q)).sum(axis=-1)
    loss = -mx.take_along_axis(log_q, targets[:, None], axis=-1).squeeze(-1)
    same = mx.argmax(before, axis=-1) == mx.argmax(after, axis=-1)
    mx.eval(finite, kl, loss, same)
    if not bool(finite.all().item()):
        raise _NotFiniteError(original=not bool(finite[0].item()))
    return _floats(loss), _floats(kl), _floats(same)


def _log_softmax(logits: mx.array) -> mx.array:
    """Return float32 log-probabilities [T, V].

    Largest logit first: what is left is small where it counts, and rounds less.
    """
    centered = logits.astype(mx.float32)
    centered = centered - centered.max(axis=-1, keepdims=True)
    return centered - mx.logsumexp(centered, axis=-1, keepdims=True)


def _floats(array: mx.array) -> Floats:
    return np.array(array, dtype=np.float64)


class _NotFiniteError(Exception):
    """Logits are NaN or infinite.

    Attributes:
        original: whether they are the original's.
    """

    def __init__(self, *, original: bool) -> None:
        super().__init__()
        self.original = original


@contextmanager
def _blaming(subject: Subject, original: Subject) -> Iterator[None]:
    """Name the model whose logits are not finite.

    Raises:
        BadModelFiles: there is one.
    """
    try:
        yield
    except _NotFiniteError as problem:
        name = original.name if problem.original else subject.name
        raise BadModelFiles(
            f"{name} gives logits that are NaN or infinite.",
            hint="Its weights are damaged or overflow: make or download the model again.",
        ) from None


def _entry(measured: _Measured, base: _Measured) -> Entry:
    """Return a model's line of the table."""
    pairs = list(zip(measured.figures, base.figures, strict=True))
    names = dict.fromkeys(each.domain for each, _ in pairs)
    domains = {name: [pair for pair in pairs if pair[0].domain == name] for name in names}
    return Entry(
        name=measured.subject.name,
        role=measured.subject.role,
        bits_per_weight=measured.stream.size.bits_per_weight,
        size_bytes=measured.stream.size.size_bytes,
        computed=measured.stream.way,
        overall=_summary(pairs),
        domains={name: _summary(chosen) for name, chosen in domains.items()},
    )


def _summary(pairs: Sequence[tuple[Figures, Figures]]) -> Summary:
    ours, originals = zip(*pairs, strict=True)
    return summarize(ours, originals)


def _comparisons(found: Sequence[_Measured], base: _Measured) -> Iterator[Comparison]:
    """Yield every quantization against every baseline."""
    baselines = [each for each in found if each.subject.role == "uniform"]
    for ours in found:
        for theirs in baselines if ours.subject.role == "quantized" else []:
            yield compare(
                ours.subject.name,
                ours.figures,
                baseline=theirs.subject.name,
                base=theirs.figures,
                original=base.figures,
            )
