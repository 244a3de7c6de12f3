"""What the answers to one request took together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from commands.serve.wire.openai import answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.events import Usage


def sum_usage(usages: Sequence[Usage], *, reasoning: bool) -> answers.Usage:
    """Return the sum over the choices; their one prompt counts once.

    Args:
        usages: of the choices, at least one.
        reasoning: whether to tell the tokens of the reasoning channel.
    """
    prompt = usages[0].prompt_tokens
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
            cached_tokens=min(usage.cached_tokens for usage in usages)
        ),
        completion_tokens_details=details if reasoning else UNSET,
        lane=usages[0].lane,
        repairs=sorted({kind for usage in usages for kind in usage.repairs}) or UNSET,
    )
