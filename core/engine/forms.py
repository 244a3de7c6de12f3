"""What may come in an answer: its form, the calls it has to make, and the limit of its reasoning.

Made in the caller's thread, where compiling a grammar may take its time. No arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.engine.calling import CallFormats, refusal
from core.engine.grammar import AfterReasoning, Grammars, NotEnforced
from core.engine.grammar.degrade import warning
from core.engine.grammar.reasoning import ChannelTokens
from core.engine.grammar.screen import TooLong
from core.engine.request import ChatPrompt

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.constraint import Constraint
    from core.engine.grammar import CompiledForm
    from core.engine.reasoning import Channel
    from core.engine.request import GenerationRequest, ToolUse
    from core.engine.tokenizer import Tokenizer
    from core.engine.tools.family import Family


@dataclass(frozen=True, kw_only=True)
class Form:
    """What was made of the form that a request asks for."""

    compiled: CompiledForm | None = None
    """What is enforced; None: nothing."""
    warnings: tuple[str, ...] = ()
    """What is not enforced though it was asked for, one sentence each."""
    instead: bool = False
    """Whether the model has to be asked for the form in words, as nothing enforces it."""


class Forms:
    """Makes constraints for one model."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        family: Family,
        channel: Channel | None,
        *,
        vocabulary: int,
        enabled: bool,
    ) -> None:
        """Take the model's side.

        Args:
            tokenizer: of the model.
            family: how it writes calls.
            channel: where it reasons, or None.
            vocabulary: width of its logits.
            enabled: whether forms are enforced at all.
        """
        self._tokenizer = tokenizer
        self._family = family
        self._channel = channel
        self._vocabulary = vocabulary
        self._grammars = Grammars(tokenizer, vocabulary, tokenizer.eos_ids, enabled=enabled)
        self._calls = CallFormats(family, self._grammars)

    def compile(self, request: GenerationRequest) -> Form:
        """Compile what a request asks for.

        Raises:
            BadRequest: a form of more than 8 KiB fails a cheap check.
        """
        wanted = self._wanted(request)
        # An answer that has to call is no text, so the form can wait for the one after it.
        grammar = None if wanted and _must_call(request.tools) else request.grammar
        if grammar is None and not wanted:
            return Form()
        calls = self._calls.prepare(request.tools) if wanted else None
        try:
            made = self._grammars.prepare(grammar, calls=calls.format if calls else None)
        except TooLong as problem:
            source, field = (grammar.source, grammar.field) if grammar else (None, "")
            raise refusal(problem, source, field) from problem
        if isinstance(made, NotEnforced) and calls and calls.fitted:
            calls = self._calls.prepare(request.tools, alone=True)
            made = self._grammars.prepare(grammar, calls=calls.format)
        said = calls.warnings if calls else ()
        if isinstance(made, NotEnforced):
            return Form(warnings=(*said, warning(made)), instead=grammar is not None)
        short = made.shortfall if grammar else None  # `Calling` warns of calls
        return Form(compiled=made, warnings=(*said, warning(short)) if short else said)

    def constraint(
        self, request: GenerationRequest, form: Form, *, ending: str
    ) -> Constraint | None:
        """Return what watches one answer, or None.

        Args:
            request: what is asked for.
            form: what was compiled of it.
            ending: the end of the rendered prompt.
        """
        inner = form.compiled.start() if form.compiled else None
        channel = self._tokens(request, ending, with_form=inner is not None)
        budget = request.thinking.budget
        if channel is None or (inner is None and budget is None):
            return inner
        return AfterReasoning(
            inner,
            channel=channel,
            is_open=self._is_open(ending),
            budget=budget,
            decode=self._reader(),
            vocabulary=self._vocabulary,
        )

    def shuts_channel(self, request: GenerationRequest, ending: str) -> bool:
        """Return whether an answer with a form never opens the channel.

        Args:
            request: what is asked for.
            ending: the end of the rendered prompt.
        """
        off = request.thinking.enabled is False or request.thinking.effort == "none"
        return off or (self._channel is not None and self._channel.is_closed(ending))

    def _wanted(self, request: GenerationRequest) -> bool:
        """Return whether the grammar has to know what calls look like: they must or may come."""
        tools = request.tools
        if not isinstance(request.prompt, ChatPrompt) or not active(tools):
            return False
        return _must_call(tools) or request.grammar is not None

    def _is_open(self, ending: str) -> bool:
        if self._family.carries_reasoning:
            return True
        return self._channel is not None and self._channel.is_open(ending)

    def _tokens(
        self, request: GenerationRequest, ending: str, *, with_form: bool
    ) -> ChannelTokens | None:
        """Return the channel that goes before the form, or None."""
        if not isinstance(request.prompt, ChatPrompt):
            return None
        if self._family.carries_reasoning:
            # Whatever channel comes first, the answer is in the last one; calls have their own.
            return None if active(request.tools) else self._mark("", HARMONY_ANSWER, with_form)
        if self._channel is None:
            return None
        opening = "" if with_form and self.shuts_channel(request, ending) else self._channel.opening
        return self._mark(opening, self._channel.closing, with_form)

    def _mark(self, opening: str, closing: str, with_form: bool) -> ChannelTokens:
        encode = self._tokenizer.encode
        return ChannelTokens(
            opening=tuple(encode(opening, special=False)) if opening else (),
            closing=tuple(encode(closing, special=False)),
            closing_text=closing,
            blanks=tuple(self._grammars.blanks()) if with_form else (),
            stops=tuple(sorted(self._tokenizer.eos_ids)) if with_form else (),
        )

    def _reader(self) -> Callable[..., str]:
        marks = set(self._family.special_tokens)
        if self._channel:
            marks |= set(self._channel.marks)
        return self._tokenizer.decoder(marks)


HARMONY_ANSWER = "<|channel|>final<|message|>"
"""What opens the channel of the answer in the harmony format (OpenAI's gpt-oss)."""


def active(tools: ToolUse) -> bool:
    """Return whether an answer may call anything."""
    return bool(tools.tools) and tools.mode != "none"


def _must_call(tools: ToolUse) -> bool:
    return tools.mode in ("required", "named")
