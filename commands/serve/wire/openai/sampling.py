"""From a request's fields to how tokens are chosen, and how many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commands.serve.wire.openai.schema import MAX_STOP_LENGTH, MAX_STOPS
from core.engine.request import Ending, SamplingParams, ToneCurve
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from commands.serve.wire.openai.schema import Hlg, SamplingFields
    from core.engine.request import GenerationRequest

# Far beyond what changes a probability, and far below what overflows when it is added to a logit.
_MOST_BIAS = 1e9

MOST_TOKENS = 2**31 - 1

# Logits are divided by it; what is smaller makes infinities of them.
_LEAST_PENALTY = 0.01


def decode_sampling(call: SamplingFields, logit_bias: Mapping[str, Any] | None) -> SamplingParams:
    """Return how tokens are chosen.

    Args:
        call: the decoded fields.
        logit_bias: as it came, already known to be numbers by numbers.

    Raises:
        BadRequest: naming the field.
    """
    return SamplingParams(
        temperature=_positive_zero(call.temperature),
        top_p=_positive_zero(call.top_p),
        top_k=None if call.top_k is None else capped(max(call.top_k, 0)),  # -1 is off, too
        min_p=_positive_zero(call.min_p),
        xtc_probability=_positive_zero(call.xtc_probability),
        xtc_threshold=_positive_zero(call.xtc_threshold),
        repetition_penalty=_penalty(call.repetition_penalty),
        repetition_context_size=capped(call.repetition_context_size),
        presence_penalty=_positive_zero(call.presence_penalty),
        presence_context_size=capped(call.presence_context_size),
        frequency_penalty=_positive_zero(call.frequency_penalty),
        frequency_context_size=capped(call.frequency_context_size),
        logit_bias=None if logit_bias is None else _biases(logit_bias),
        tone_curve=None if call.hlg is None else _tone_curve(call.hlg),
        seed=_seed(call.seed),
    )


def decode_stops(stop: str | list[str] | None) -> tuple[str, ...]:
    """Return the texts that end the answer; an empty string alone is none.

    Raises:
        BadRequest: one is empty or too long, or they are too many.
    """
    stops = tuple(stop) if isinstance(stop, list) else (stop,) if stop else ()
    if len(stops) > MAX_STOPS:
        raise BadRequest(
            f"stop must be a text or a list of at most {MAX_STOPS} texts, not {len(stops)}.",
            field="stop",
        )
    if not all(stops):
        raise BadRequest("stop must not hold an empty text.", field="stop")
    if max(map(len, stops), default=0) > MAX_STOP_LENGTH:
        raise BadRequest(
            f"stop must not hold a text of more than {MAX_STOP_LENGTH} characters.", field="stop"
        )
    return stops


def decode_ending(call: SamplingFields) -> Ending:
    """Return which tokens end the answer, and when.

    Raises:
        BadRequest: more tokens must be generated than may be.
    """
    least, most = call.min_tokens or 0, call.max_completion_tokens or call.max_tokens
    if most is not None and least > most:
        raise BadRequest(
            "min_tokens must not be greater than the most tokens to generate.",
            field="min_tokens",
        )
    return Ending(
        min_tokens=min(least, MOST_TOKENS),
        ignore_eos=bool(call.ignore_eos),
        stop_tokens=frozenset(call.stop_token_ids or ()),
    )


def decode_logprobs(logprobs: bool | int | None, top_logprobs: int | None) -> int | None:
    """Return which log-probabilities the answer has; `top_logprobs` takes precedence.

    Args:
        logprobs: true or false, or an integer that asks for arrays.
        top_logprobs: -1 and 0 are off.

    Raises:
        BadRequest: an integer contradicts `top_logprobs`.
    """
    top = top_logprobs if top_logprobs is not None and top_logprobs > 0 else None
    if logprobs is None or isinstance(logprobs, bool):
        return top if top is not None else 0 if logprobs else None
    if top not in (None, logprobs):
        raise BadRequest(
            "top_logprobs goes with logprobs: true; an integer logprobs is the number of likeliest "
            "tokens itself.",
            field="top_logprobs",
        )
    return logprobs


def check_vocabulary(request: GenerationRequest, vocabulary_size: int | None) -> None:
    """Check that every token that a request names exists.

    Args:
        request: the decoded fields.
        vocabulary_size: of the served model, or None if it is not known.

    Raises:
        BadRequest: one does not.
    """
    biased = [token for token, _ in request.sampling.logit_bias or ()]
    named = {"logit_bias": biased, "stop_token_ids": sorted(request.ending.stop_tokens)}
    for field, tokens in named.items():
        for token in tokens:
            if token < 0 or (vocabulary_size is not None and token >= vocabulary_size):
                known = f", whose ids go to {vocabulary_size - 1}" if vocabulary_size else ""
                raise BadRequest(
                    f"{field} names the token {str(token)[:40]}, which is not in the model's "
                    f"vocabulary{known}.",
                    field=field,
                )


def capped(count: int | None) -> int | None:
    """Return a ceiling that fits 31 bits: what no context can hold needs no more."""
    return None if count is None else min(count, MOST_TOKENS)


def _positive_zero(value: float | None) -> float | None:
    return None if value is None else value + 0.0  # -0.0 + 0.0 is 0.0


def _penalty(value: float | None) -> float | None:
    if value is not None and 0 < value < _LEAST_PENALTY:
        raise BadRequest(
            f"repetition_penalty must be 0 (off) or a number from {_LEAST_PENALTY} to 100.",
            field="repetition_penalty",
        )
    return _positive_zero(value)


def _biases(logit_bias: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    biases = {int(key): float(bias) for key, bias in logit_bias.items()}
    return tuple(
        (token, min(max(bias, -_MOST_BIAS), _MOST_BIAS)) for token, bias in sorted(biases.items())
    )


def _tone_curve(hlg: Hlg) -> ToneCurve:
    return ToneCurve(
        enabled=hlg.enabled,
        width=_positive_zero(hlg.width),
        shoulder=_positive_zero(hlg.shoulder),
        toe=_positive_zero(hlg.toe),
        pivot_offset=_positive_zero(hlg.pivot_offset),
    )


def _seed(seed: int | None) -> int | None:
    if seed is not None and not -(2**63) <= seed < 2**64:
        raise BadRequest("seed must be a whole number of 64 bits.", field="seed")
    return seed
