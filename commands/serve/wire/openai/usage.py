"""The usage of all answers to one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from commands.serve.wire.openai import answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.events import Usage


def sum_usage(usages: Sequence[Usage], *, each: int, reasoning: bool) -> answers.Usage:
    """Return the sum over the choices; each prompt counts once.

    Args:
        usages: of the choices in their order, at least one.
        each: choices of each prompt.
        reasoning: whether to include the tokens of the reasoning channel.
    """
    by_prompt = [usages[start : start + each] for start in range(0, len(usages), each)]
    prompt = sum(choices[0].prompt_tokens for choices in by_prompt)
    completion = sum(usage.completion_tokens for usage in usages)
    details = answers.CompletionTokensDetails(
        reasoning_tokens=sum(usage.reasoning_tokens for usage in usages)
    )
    return answers.Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        # What one choice takes over from another is not known before the request.
        prompt_tokens_details=answers.PromptTokensDetails(
            cached_tokens=sum(min(one.cached_tokens for one in choices) for choices in by_prompt)
        ),
        completion_tokens_details=details if reasoning else UNSET,
        lane=usages[0].lane,
        repairs=sorted({kind for usage in usages for kind in usage.repairs}) or UNSET,
    )
