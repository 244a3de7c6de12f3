"""What a model family's tool calls look like, to the rest of the engine. Imports no arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from core.engine.parsing import AnswerParser
from core.engine.request import ToolUse
from core.engine.tools.calls import NewId
from core.engine.tools.history import with_objects

Message: TypeAlias = Mapping[str, Any]
Format: TypeAlias = dict[str, Any]
WriteCalls: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], str]
"""Returns the text of calls, given the `name` and the `arguments`, an object, of each."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One way of writing calls."""

    name: str
    """The plug-in's."""
    make_parser: Callable[[ToolUse, NewId], AnswerParser]
    """Returns a parser for one answer; the second argument makes the ids of its calls. Without
    tools, and in mode `none`, text passes untouched (channels are told apart all the same)."""
    call_format: Callable[[ToolUse], Format]
    """Returns the part of an xgrammar structural tag that stands for one or more calls, exactly one
    if the mode is `named` or calls may not be parallel. There is at least one tool."""
    special_tokens: tuple[str, ...] = ()
    """Texts of special tokens that decoding must leave visible, because the parser reads them."""
    carries_reasoning: bool = False
    """Whether the parser yields the reasoning too: no reasoning splitter goes before it."""
    prepare_history: Callable[[Iterable[Message]], list[Message]] = field(default=with_objects)
    """Returns the messages as the family's chat template expects them; never changes the ones it
    is given. Most templates want the arguments of calls as objects."""
    write_calls: WriteCalls | None = None
    """Writes calls as the model would, for chat templates that show the content of earlier answers
    and nothing of their calls; None: Hermes' form will do."""
