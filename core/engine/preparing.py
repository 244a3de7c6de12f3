"""From a request to all that its rows need. Runs in the caller's thread; no arrays.

What the request leaves open is settled here: whether the model reasons, how its family writes
calls, how its answer is read and what may come next in it.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from core.engine.forms import HARMONY_ANSWER, Form, Forms, active
from core.engine.grammar.degrade import instruction
from core.engine.output import OutputPipeline
from core.engine.reasoning import FormAfterMark, PlainText, ReasoningSplitter, find_channel
from core.engine.request import ChatPrompt
from core.engine.thinking import template_variables
from core.engine.tool_prompt import (
    knows_tools,
    shows_calls,
    shows_one_call,
    tell_of_tools,
    with_system,
    with_written_calls,
)
from core.engine.tools.choose import FALLBACK, choose_family, load_family
from core.engine.tools.history import one_call_each
from core.errors import BadRequest, ContextTooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.engine.constraint import Constraint
    from core.engine.parsing import AnswerParser
    from core.engine.prompt import Prompt, PromptBuilder
    from core.engine.request import GenerationRequest, TextPrompt, ToolUse
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
        tokens = _Vocabulary(tokenizer)
        self.channel = find_channel(tokens, tokenizer.template)
        # A template that is code is not read here; it is trusted to tell of tools.
        template = tokenizer.template
        self._told_by_template = not template or knows_tools(template)
        self._shows_calls = not template or shows_calls(template)
        self._shows_one_call = shows_one_call(template)
        self.family = (
            choose_family(tokenizer.template, tokens)
            if self._told_by_template
            else load_family(FALLBACK)
        )
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
        return Prepared(
            prompt=prompt,
            make_output=lambda: self._make_output(request, prompt, formed=formed),
            make_constraint=lambda: self._forms.constraint(request, form, ending=prompt.ending),
            warnings=form.warnings,
        )

    def _build(self, request: GenerationRequest, form: Form) -> Prompt:
        chat = self._settle(request)
        if form.instead and request.grammar and isinstance(chat, ChatPrompt):
            words = instruction(request.grammar)
            # A form that is too long to be told is no reason to refuse the conversation.
            with suppress(ContextTooLong):
                return self._prompts.build(with_system(chat, words, allowed=self._takes_system))
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
        prompt = replace(
            prompt,
            messages=tuple(self._history(prompt.messages)),
            template_kwargs={**prompt.template_kwargs, **told},
        )
        if self._told_by_template:
            return prompt
        return tell_of_tools(prompt, system=self._takes_system)

    def _history(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return a conversation with all earlier calls in the form that the template shows."""
        ready = self.family.prepare_history(messages)
        if self._shows_one_call:
            return one_call_each(ready)
        if self._told_by_template and not self._shows_calls:
            return with_written_calls(ready, self.family.write_calls)
        return ready

    @cached_property
    def _takes_system(self) -> bool:
        """Whether the template takes system messages; some refuse them."""
        asked = ({"role": "system", "content": "s"}, {"role": "user", "content": "u"})
        with suppress(BadRequest):
            self._tokenizer.render(ChatPrompt(messages=asked))
            return True
        return False

    def _make_output(
        self, request: GenerationRequest, prompt: Prompt, *, formed: bool
    ) -> OutputPipeline:
        if not isinstance(request.prompt, ChatPrompt):
            return OutputPipeline(decode=self._tokenizer.decode, stops=request.stop)
        return OutputPipeline(
            decode=self._tokenizer.decoder(self._markup(request.tools)),
            stops=request.stop,
            parser=self._make_parser(request, prompt, formed=formed),
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


def new_call_id() -> str:
    """Return an id that no other call has."""
    return f"call_{secrets.token_hex(12)}"


class _Vocabulary:
    """The tokens of a tokenizer, to ask whether one is among them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self._tokenizer.token_id(token) is not None
