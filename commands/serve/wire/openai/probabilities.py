"""Log-probabilities as the protocol writes them: a block of entries, or OpenAI's four arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.serve.wire.openai import answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.events import Position, TokenLogprob

_NEVER = -9999.0


def chat_logprobs(positions: Sequence[Position] | None) -> answers.Logprobs | None:
    """Return the block of a chat answer, or of a chunk of it; None or empty: there is none."""
    return answers.Logprobs(content=_content(positions)) if positions else None


def text_logprobs(
    positions: Sequence[Position] | None, *, arrays: bool, before: int
) -> answers.TextLogprobs | None:
    """Return the block of a continuation, or of a chunk of it.

    Args:
        positions: None or empty: there is none.
        arrays: whether it consists of four arrays.
        before: characters of the text before the first token.
    """
    if not positions:
        return None
    if not arrays:
        return answers.TextLogprobs(content=_content(positions))
    return answers.TextLogprobs(
        tokens=[_name(one.chosen) for one in positions],
        token_logprobs=[_finite(one.chosen.logprob) for one in positions],
        top_logprobs=[_by_name(one) for one in positions],
        text_offset=[before + one.offset for one in positions],
    )


def _content(positions: Sequence[Position]) -> list[answers.PositionLogprobs]:
    return [_entry(position) for position in positions]


def _entry(position: Position) -> answers.PositionLogprobs:
    chosen = position.chosen
    return answers.PositionLogprobs(
        id=chosen.token,
        token=chosen.text,
        logprob=_finite(chosen.logprob),
        bytes=list(chosen.raw),
        top_logprobs=[
            answers.TokenLogprob(
                id=one.token, token=one.text, logprob=_finite(one.logprob), bytes=list(one.raw)
            )
            for one in position.top
        ],
    )


def _by_name(position: Position) -> dict[str, float]:
    """Return the likeliest tokens and the generated one; of equal names the likeliest counts."""
    found: dict[str, float] = {}
    for one in (*position.top, position.chosen):
        found.setdefault(_name(one), _finite(one.logprob))
    return found


def _name(token: TokenLogprob) -> str:
    """Return a token as OpenAI's arrays name it: as bytes if it is part of a character."""
    try:
        return token.raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.raw)


def _finite(logprob: float) -> float:
    # JSON has neither infinity nor NaN; this is the protocol's word for "never".
    return logprob if logprob > _NEVER else _NEVER
