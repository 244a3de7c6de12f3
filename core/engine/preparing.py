"""From a request to all that its rows need. Runs in the caller's thread; no arrays.

What the request leaves open is settled here: whether the model reasons, how its family writes calls,
how its answer is read and what may come next in it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.engine.output import OutputPipeline
from core.engine.reasoning import PlainText, ReasoningSplitter, find_channel
from core.engine.request import ChatPrompt
from core.engine.thinking import template_variables

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.constraint import Constraint
    from core.engine.parsing import AnswerParser
    from core.engine.prompt import Prompt, PromptBuilder
    from core.engine.request import GenerationRequest
    from core.engine.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request that is ready to run, once or several times."""

    prompt: Prompt
    """Its tokens."""
    make_output: Callable[[], OutputPipeline]
    """Makes what reads one answer."""
    make_constraint: Callable[[], Constraint | None]
    """Makes what watches one answer; None: everything may come."""
    warnings: tuple[str, ...] = ()
    """What was asked for and is not done, one sentence each."""
