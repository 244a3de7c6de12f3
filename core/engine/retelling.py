"""Conversations as a model's chat template can show them: tools and calls in words where it cannot.

What serves a model and what trains it tell it alike. Imports no arrays.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from core.engine.request import ChatPrompt
from core.engine.system_prompt import probe_support, show_system
from core.engine.tool_prompt import (
    knows_tools,
    shows_calls,
    shows_one_call,
    tell_of_tools,
    with_written_calls,
)
from core.engine.tools.choose import FALLBACK, choose_family, load_family
from core.engine.tools.history import (
    has_texts,
    one_call_each,
    with_boxed_texts,
    with_objects,
    with_texts,
)
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from core.engine.system_prompt import SystemSupport
    from core.engine.tokenizer import Tokenizer

_SIGN = '{"mlxbun": "sign"}'
"""Arguments whose form is found again in what a template makes of them."""
_TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
    },
}

Form: TypeAlias = "Callable[[Iterable[Mapping[str, Any]]], list[Mapping[str, Any]]]"
"""Returns messages with the arguments of calls in one form."""


class Retelling:
    """Puts conversations into the form that one model's template shows.

    Attributes:
        family: how the model writes calls.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Take the model's tokenizer, with its chat template."""
        self._tokenizer = tokenizer
        # A template that is code is not read here; it is trusted to tell of tools.
        template = tokenizer.template
        self._told_by_template = not template or knows_tools(template)
        self._shows_calls = not template or shows_calls(template)
        self._shows_one_call = shows_one_call(template)
        self.family = (
            choose_family(tokenizer.template, Tokens(tokenizer))
            if self._told_by_template
            else load_family(FALLBACK)
        )

    def retell(self, prompt: ChatPrompt) -> ChatPrompt:
        """Return a conversation with all that its template has to be told."""
        prompt = replace(prompt, messages=tuple(self._history(prompt.messages)))
        return self.show_system(prompt if self._told_by_template else tell_of_tools(prompt))

    def show_system(self, prompt: ChatPrompt) -> ChatPrompt:
        """Return a conversation with its system messages where the template shows them."""
        if not any(message.get("role") == "system" for message in prompt.messages):
            return prompt
        return replace(prompt, messages=tuple(show_system(prompt.messages, self._system)))

    @cached_property
    def _system(self) -> SystemSupport:
        return probe_support(self._rendered)

    def _rendered(self, prompt: ChatPrompt) -> str | None:
        with suppress(BadRequest):
            return self._tokenizer.render(prompt)
        return None

    def _history(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """Return a conversation with all earlier calls in the form that the template shows."""
        ready = self.family.prepare_history(messages)
        if self._told_by_template and not self._shows_calls:
            return with_written_calls(with_objects(ready), self.family.write_calls)
        if self._told_by_template and any(message.get("tool_calls") for message in ready):
            ready = self._fitting(ready)
        return one_call_each(ready) if self._shows_one_call else ready

    def _fitting(self, messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Give the arguments of calls as the template shows them."""
        if has_texts(messages) and not self._shows_texts:
            messages = with_boxed_texts(messages)
        return self._form(messages)

    @cached_property
    def _form(self) -> Form:
        """What makes arguments objects or texts: templates go through the ones or join the others.

        Shown in the other way, they fail or come out as Python's objects or as texts in quotes.
        Where neither way shows them right, it is the family's.
        """
        texts = isinstance(_arguments(self.family.prepare_history(_probe(_SIGN))[-2]), str)
        forms: tuple[Form, ...] = (
            (with_texts, with_objects) if texts else (with_objects, with_texts)
        )
        for form in forms:
            shown = self._shown(form, _SIGN)
            if "mlxbun" in shown and "{'mlxbun" not in shown and '\\"mlxbun' not in shown:
                return form
        return forms[0]

    @cached_property
    def _shows_texts(self) -> bool:
        """Whether the template shows arguments that are not a JSON object."""
        return "mlxbun" in self._shown(self._form, _SIGN.removesuffix("}"))

    def _shown(self, form: Form, arguments: str) -> str:
        """Return a conversation with a call as the template shows it; empty: it refuses it."""
        messages = form(self.family.prepare_history(_probe(arguments)))
        with suppress(BadRequest):
            return self._tokenizer.render(ChatPrompt(messages=tuple(messages), tools=(_TOOL,)))
        return ""


def _probe(arguments: str) -> tuple[Mapping[str, Any], ...]:
    """Return a conversation with a call."""
    function = {"name": "f", "arguments": arguments}
    call = {"id": "call00001", "type": "function", "function": function}
    return (
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "content": "t"},
    )


def _arguments(message: Mapping[str, Any]) -> Any:
    return message["tool_calls"][0]["function"]["arguments"]


class Tokens:
    """The tokens of a tokenizer, to ask whether one is among them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Take the tokenizer."""
        self._tokenizer = tokenizer

    def __contains__(self, token: object) -> bool:
        """Return whether a text is one token."""
        return isinstance(token, str) and self._tokenizer.token_id(token) is not None
