"""From a request to all that its rows need. Runs in the caller's thread; no arrays.

What the request leaves open is settled here: whether the model reasons, how its family writes
calls, how its answer is read and what may come next in it.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.engine.ending import with_ending
from core.engine.forms import HARMONY_ANSWER, Form, Forms, active
from core.engine.grammar.degrade import instruction
from core.engine.output import OutputPipeline
from core.engine.reasoning import FormAfterMark, PlainText, ReasoningSplitter, find_channel
from core.engine.request import ChatPrompt, TextPrompt
from core.engine.retelling import Retelling, Tokens
from core.engine.thinking import template_variables
from core.engine.tool_prompt import with_system
from core.errors import ContextTooLong

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.constraint import Constraint
    from core.engine.parsing import AnswerParser
    from core.engine.prompt import Prompt, PromptBuilder
    from core.engine.request import Ending, GenerationRequest, ToolUse
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
    stop_tokens: frozenset[int] = frozenset()
    """Tokens that end an answer as EOS does."""
    warnings: tuple[str, ...] = ()
    """What was asked for and is not done, one sentence each."""


class Preparer:
    """Makes requests ready for one model.

    Attributes:
        channel: the model's reasoning channel, or None.
        family: how the model writes calls.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompts: PromptBuilder,
        *,
        vocabulary: int,
        thinking: bool | None,
        grammar: bool,
    ) -> None:
        """Take the model's side.

        Args:
            tokenizer: of the model.
            prompts: renders and tokenizes.
            vocabulary: width of the model's logits.
            thinking: whether the model reasons when a request does not say; None: as it likes.
            grammar: whether forms are enforced.
        """
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._thinking = thinking
        self.channel = find_channel(Tokens(tokenizer), tokenizer.template)
        self._retelling = Retelling(tokenizer)
        self.family = self._retelling.family
        self._forms = Forms(
            tokenizer, self.family, self.channel, vocabulary=vocabulary, enabled=grammar
        )

    @property
    def reasons(self) -> bool:
        """Whether the model has a reasoning channel that is known here."""
        return self.channel is not None or self.family.carries_reasoning

    def prepare(self, request: GenerationRequest) -> Prepared:
        """Make a request ready.

        Raises:
            BadRequest: the chat template refuses the conversation, or there is none.
            ContextTooLong: the prompt leaves no token to generate.
        """
        form = self._forms.compile(request)
        prompt = self._build(request, form)
        formed = form.compiled is not None
        ending = self._ending(request)
        return Prepared(
            prompt=prompt,
            make_output=lambda: self._make_output(request, prompt, formed=formed),
            make_constraint=lambda: with_ending(
                self._forms.constraint(request, form, ending=prompt.ending),
                ending,
                eos_ids=self._tokenizer.eos_ids,
            ),
            stop_tokens=ending.stop_tokens,
            warnings=(*form.warnings, *self._unfilled(request)),
        )

    def _ending(self, request: GenerationRequest) -> Ending:
        """Return what ends an answer; what is filled into a gap has ends of its own."""
        infill = self._tokenizer.infill
        if not _has_gap(request) or infill is None:
            return request.ending
        found = (self._tokenizer.token_id(mark) for mark in (*infill.marks, *infill.ends))
        ends = frozenset(token for token in found if token is not None)
        return replace(request.ending, stop_tokens=request.ending.stop_tokens | ends)

    def _unfilled(self, request: GenerationRequest) -> tuple[str, ...]:
        if _has_gap(request) and self._tokenizer.infill is None:
            return ("suffix ignored: the model has no fill-in-the-middle tokens",)
        return ()

    def _build(self, request: GenerationRequest, form: Form) -> Prompt:
        chat = self._settle(request)
        words = instruction(request.grammar) if form.instead and request.grammar else ""
        if words and isinstance(chat, ChatPrompt):
            # A form that is too long to be told is no reason to refuse the conversation.
            with suppress(ContextTooLong):
                return self._prompts.build(self._retelling.show_system(with_system(chat, words)))
        return self._prompts.build(chat)

    def _settle(self, request: GenerationRequest) -> ChatPrompt | TextPrompt:
        """Return the prompt with all that its template has to be told."""
        prompt = request.prompt
        if not isinstance(prompt, ChatPrompt):
            return prompt
        told = template_variables(
            request.thinking,
            prompt.template_kwargs,
            server=self._thinking,
            template=self._tokenizer.template,
        )
        settled = replace(prompt, template_kwargs={**prompt.template_kwargs, **told})
        return self._retelling.retell(settled)

    def _make_output(
        self, request: GenerationRequest, prompt: Prompt, *, formed: bool
    ) -> OutputPipeline:
        if not isinstance(request.prompt, ChatPrompt):
            return OutputPipeline(
                decode=self._tokenizer.decode,
                stops=request.stop,
                min_tokens=request.ending.min_tokens,
            )
        return OutputPipeline(
            decode=self._tokenizer.decoder(self._markup(request.tools)),
            stops=request.stop,
            parser=self._make_parser(request, prompt, formed=formed),
            min_tokens=request.ending.min_tokens,
        )

    def _markup(self, tools: ToolUse) -> set[str]:
        """Return the special tokens that an answer's parser reads."""
        channel, family = self.channel, self.family
        marks = set(channel.marks) if channel else set()
        reads = family.carries_reasoning or active(tools)
        return marks | set(family.special_tokens) if reads else marks

    def _make_parser(
        self, request: GenerationRequest, prompt: Prompt, *, formed: bool
    ) -> AnswerParser:
        family, channel, tools = self.family, self.channel, request.tools
        if family.carries_reasoning:
            parser = family.make_parser(tools, new_call_id)
            return FormAfterMark(parser, HARMONY_ANSWER) if formed and not active(tools) else parser
        content = family.make_parser(tools, new_call_id) if active(tools) else PlainText()
        if channel is None:
            return content
        return ReasoningSplitter(
            channel,
            content,
            inside=channel.is_open(prompt.ending),
            formed=formed,
            shut=self._forms.shuts_channel(request, prompt.ending),
        )


def _has_gap(request: GenerationRequest) -> bool:
    return isinstance(request.prompt, TextPrompt) and bool(request.prompt.suffix)


def new_call_id() -> str:
    """Return an id that no other call has."""
    return f"call_{secrets.token_hex(12)}"
