"""Text that two sets share: the runs of 13 tokens that occur in both. Imports no arrays.

A model that was calibrated on text is not measured on the same text. The length of a run is the
one by which contamination of test data is usually counted (Brown et al. 2020, appendix C).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

RUN = 13
"""Tokens of a run."""

# Scripts without spaces between words count by the character.
_WORD = re.compile(
    "[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
    "|[^\\W_\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\\w\\s]|_"
)


@dataclass(frozen=True, kw_only=True)
class SharedRun:
    """A run of tokens that occurs in two sets of sequences."""

    sequence: int
    """Index of the sequence in the first set."""
    start: int
    """Index of the run's first token in that sequence."""
    other_sequence: int
    """Index of a sequence of the second set that holds the run."""
    other_start: int
    """Index of the run's first token in that one."""


def shared_runs(
    sequences: Iterable[Sequence[Hashable]],
    others: Iterable[Sequence[Hashable]],
    *,
    run: int = RUN,
) -> Iterator[SharedRun]:
    """Yield the runs of the first set that occur in the second one, in order.

    Takes time linear in the number of tokens, and memory linear in those of the second set. Runs
    are looked up by hash and compared token by token. Sequences shorter than a run share nothing.

    Args:
        sequences: tokens or words of the first set; read once.
        others: those of the second set.
        run: tokens of a run.
    """
    places: dict[tuple[Hashable, ...], tuple[int, int]] = {}
    for index, sequence in enumerate(others):
        for start, key in _runs(sequence, run):
            places.setdefault(key, (index, start))
    for index, sequence in enumerate(sequences):
        for start, key in _runs(sequence, run):
            if key in places:
                other_sequence, other_start = places[key]
                yield SharedRun(
                    sequence=index,
                    start=start,
                    other_sequence=other_sequence,
                    other_start=other_start,
                )


def words_of(text: str) -> list[str]:
    """Return the words and punctuation marks of a text.

    Chinese characters, kana, Hangul syllables and Thai letters count one by one.
    """
    return _WORD.findall(text)


def _runs(sequence: Sequence[Hashable], run: int) -> Iterator[tuple[int, tuple[Hashable, ...]]]:
    whole = tuple(sequence)
    for start in range(len(whole) - run + 1):
        yield start, whole[start : start + run]
