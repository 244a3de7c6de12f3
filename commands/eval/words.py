"""The arguments and options of `mlxbun eval`, checked together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.errors import UsageProblem

_TOKENS = 64  # of an answer, unless the command line says otherwise


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One evaluation, as given on the command line."""

    original: str | None
    """The model to compare with; None: the one that the record names."""
    model: str
    """The model."""
    verify: bool
    """Measure the model's own table again."""
    min_agreement: float | None
    """Least top-1 agreement, or None."""
    max_kl: float | None
    """Largest mean KL divergence in nats per token, or None."""
    answers: bool
    """Compare generated answers as well."""
    tokens: int
    """Maximum tokens per answer."""
    layered: bool | None
    """Compute layer by layer; None: only large models."""


def read_words(
    words: list[str],
    *,
    verify: bool,
    original: str | None,
    min_agreement: float | None,
    max_kl: float | None,
    answers: bool | None,
    max_tokens: int | None,
    layered: bool | None,
) -> Asked:
    """Return the evaluation that a command line describes.

    Raises:
        UsageProblem: too many or too few models, an option of the other form, or a limit that is
            outside its range.
    """
    expected = 1 if verify else 2
    if len(words) != expected:
        takes = "one model with --verify" if verify else "two models, ORIGINAL and MODEL"
        raise UsageProblem(
            f"eval takes {takes}, not {len(words)}.", hint="`mlxbun ls` shows the models here."
        )
    if original is not None and not verify:
        raise UsageProblem("--original needs --verify; without it, give two models.")
    if verify and (answers is not None or max_tokens is not None):
        raise UsageProblem("--verify generates no answers: omit --answers and --max-tokens.")
    if answers is False and max_tokens is not None:
        raise UsageProblem("--max-tokens has no effect with --no-answers.")
    if min_agreement is not None and not 0 <= min_agreement <= 1:
        raise UsageProblem(f"--min-agreement must be from 0 to 1, not {min_agreement:g}.")
    if max_kl is not None and not 0 <= max_kl < math.inf:
        raise UsageProblem(f"--max-kl must be a finite number of at least 0, not {max_kl:g}.")
    return Asked(
        original=original if verify else words[0],
        model=words[-1],
        verify=verify,
        min_agreement=min_agreement,
        max_kl=max_kl,
        answers=answers is not False,
        tokens=_TOKENS if max_tokens is None else max_tokens,
        layered=layered,
    )
