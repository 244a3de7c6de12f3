"""What is measured, and in which order. Pure: counts in, steps out.

Every round goes over all sizes once, and every second round goes backwards, so that a noisy moment
or a machine that warms up weighs on all figures alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from core.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_PROMPTS = (128, 512, 2048)
DEFAULT_ROWS = (1, 2, 4, 8)
DEFAULT_TOKENS = 32
DEFAULT_REPEATS = 5
# Shorter prompts than this cannot be told from each other, and measure the first token alone.
LEAST_PROMPT = 16
# Tokens of the prompts whose answers measure decoding.
_DECODE_PROMPT = 32


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a person wants to be measured."""

    prompts: tuple[int, ...] = DEFAULT_PROMPTS
    """Prompt lengths in tokens, each at least `LEAST_PROMPT`."""
    rows: tuple[int, ...] = DEFAULT_ROWS
    """Rows that decode together, each at least 1."""
    tokens: int = DEFAULT_TOKENS
    """Tokens that each row decodes, at least 2: the time between them is what counts."""
    repeats: int = DEFAULT_REPEATS
    """Rounds, at least 1: samples of each figure."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UsageProblem: a number is too small, or there is nothing to measure.
        """
        _refuse_below(LEAST_PROMPT, "--prompts", self.prompts)
        _refuse_below(1, "--rows", self.rows)
        _refuse_below(2, "--tokens", (self.tokens,))
        _refuse_below(1, "--repeats", (self.repeats,))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an engine allows."""

    context: int
    """Tokens of prompt and answer that fit the model and the memory."""
    batch: int
    """Rows that may run together."""
    prompt_cache: bool
    """Whether the KV of prompts is kept at all."""
    serial: str | None = None
    """Why the model runs one row at a time, one sentence; None: it does not."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing to measure."""

    kind: Literal["prompt", "rows"]
    """`prompt`: prefill and the TTFTs of one length; `rows`: decoding together."""
    size: int
    """Tokens of the prompt, or rows."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is going to be measured."""

    prompts: tuple[int, ...]
    """Prompt lengths in tokens, ascending, each once."""
    rows: tuple[int, ...]
    """Rows, ascending, each once."""
    tokens: int
    """Tokens that each row decodes."""
    decode_prompt: int
    """Tokens of the prompts that they start from."""
    repeats: int
    """Rounds."""
    warm: bool
    """Whether prompts are asked a second time."""
    notes: tuple[str, ...]
    """What differs from the wishes, one sentence each."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Everything to measure, in order."""
        sizes = [Step(kind="prompt", size=size) for size in self.prompts]
        sizes += [Step(kind="rows", size=size) for size in self.rows]
        there_and_back = (sizes, sizes[::-1])
        return tuple(step for n in range(self.repeats) for step in there_and_back[n % 2])


def make_plan(wishes: Wishes, limits: Limits) -> Plan:
    """Cut wishes to what the engine allows; what is cut is noted."""
    longest = limits.context - 1  # an answer has at least one token
    decode_prompt = min(_DECODE_PROMPT, limits.context // 2)
    tokens = min(wishes.tokens, limits.context - decode_prompt)
    rows = 1 if limits.serial else limits.batch
    notes = [
        *_cut_note(wishes.prompts, longest, "tokens of prompt", "The context allows"),
        *_cut_note(
            wishes.rows,
            rows,
            "rows",
            "The model allows" if rows < limits.batch else "--batch allows",
        ),
        *_cut_note((wishes.tokens,), tokens, "tokens a row", "The context allows"),
    ]
    notes += [limits.serial] if limits.serial else []
    if not limits.prompt_cache:
        notes.append("The prompt cache is off (--prompt-cache 0): no warm TTFT is measured.")
    return Plan(
        prompts=_cut(wishes.prompts, longest),
        rows=_cut(wishes.rows, rows),
        tokens=tokens,
        decode_prompt=decode_prompt,
        repeats=wishes.repeats,
        warm=limits.prompt_cache,
        notes=tuple(notes),
    )


def make_wishes(
    *, prompts: str | None, rows: str | None, tokens: int | None, repeats: int | None
) -> Wishes:
    """Return the wishes of a command line; None: the default.

    Raises:
        UsageProblem: an option that is malformed or out of range.
    """
    return Wishes(
        prompts=DEFAULT_PROMPTS if prompts is None else parse_sizes(prompts, "--prompts"),
        rows=DEFAULT_ROWS if rows is None else parse_sizes(rows, "--rows"),
        tokens=DEFAULT_TOKENS if tokens is None else tokens,
        repeats=DEFAULT_REPEATS if repeats is None else repeats,
    )


def parse_sizes(text: str, option: str) -> tuple[int, ...]:
    """Return the whole numbers in `128,512`.

    Args:
        text: numbers with commas between them.
        option: how to call the place in an error: `--prompts`.

    Raises:
        UsageProblem: it is something else.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise UsageProblem(f"{option} must be whole numbers like 1,4,8, not {text!r}.")
    return tuple(map(int, words))


def _cut(sizes: Iterable[int], most: int) -> tuple[int, ...]:
    return tuple(sorted({min(size, most) for size in sizes}))


def _cut_note(sizes: Iterable[int], most: int, unit: str, reason: str) -> list[str]:
    large = [str(size) for size in sorted(set(sizes)) if size > most]
    return [f"{reason} {most} {unit}: measured instead of {', '.join(large)}."] if large else []


def _refuse_below(least: int, option: str, numbers: tuple[int, ...]) -> None:
    if not numbers or min(numbers) < least:
        raise UsageProblem(
            f"{option} must be at least {least}, not {min(numbers, default='empty')}."
        )
