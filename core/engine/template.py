"""Chat templates: Jinja programs out of model folders, rendered in a sandbox.

Same names, filters and defaults as transformers' `apply_chat_template` gives them (its
documentation, "Chat templates", defines the dialect); what both render is compared by tests.
transformers itself takes a second to import, and a prompt should not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2 import Template

# Names under which clients and templates know a message's reasoning; the first is the usual one.
_REASONING = ("reasoning_content", "thinking", "reasoning")


_fixed_date: ContextVar[datetime | None] = ContextVar("_fixed_date", default=None)


@contextmanager
def fixed_date(date: datetime) -> Iterator[None]:
    """Have templates that write today's date write another one within the block.

    Holds for the thread that enters the block.

    Args:
        date: the date, in no time zone.
    """
    before = _fixed_date.set(date)
    try:
        yield
    finally:
        _fixed_date.reset(before)


class ChatTemplate:
    """The templates of one model: most have one, some another one for conversations with tools."""

    def __init__(
        self, sources: Mapping[str, str], variables: Mapping[str, str], *, thinking: bool
    ) -> None:
        """Take what the model folder says.

        Args:
            sources: Jinja source by name; `default`, and perhaps `tool_use` and others.
            variables: special tokens by name (`bos_token`, ...), which templates refer to.
            thinking: what `enable_thinking` is when a conversation does not say.
        """
        self._sources = dict(sources)
        self._variables = dict(variables)
        self._thinking = thinking
        self._compiled: dict[str, Template] = {}

    def prepare(self) -> None:
        """Compile the default template ahead of its first use; what is wrong is said then."""
        with suppress(Exception):  # a template is a foreign program
            self._template(has_tools=False)

    def render(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        """Return the text of a conversation.

        Args:
            messages: the turns, as JSON values.
            variables: `add_generation_prompt`, `tools`, and whatever else the template knows.

        Raises:
            ValueError: there is no template for this conversation.
            jinja2.TemplateError: the template refuses it.
            Exception: a template is a program and may raise what it likes.
        """
        known = {"tools": None, "documents": None, "add_generation_prompt": False}
        thinking = {"enable_thinking": self._thinking}
        chat = [_name_reasoning(_without_none(message)) for message in messages]
        template = self._template(has_tools=variables.get("tools") is not None)
        # What a conversation says goes before what the model says.
        return template.render(
            known | thinking | self._variables | _plain(variables), messages=_plain(chat)
        )

    def _template(self, *, has_tools: bool) -> Template:
        name = "tool_use" if has_tools and "tool_use" in self._sources else "default"
        if name not in self._sources:
            raise ValueError(f"the model has no default chat template, only {[*self._sources]}")
        if name not in self._compiled:
            self._compiled[name] = self._environment.from_string(self._sources[name])
        return self._compiled[name]

    @cached_property
    def _environment(self) -> Any:
        from jinja2 import nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        class Generation(Extension):
            """`{% generation %}` marks what the assistant said; here its text is what counts."""

            tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

            def parse(self, parser: Any) -> Any:
                line = next(parser.stream).lineno
                body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
                return nodes.Scope(body).set_lineno(line)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
            "dict": _make_dict,
            "namespace": _safe_namespace(),
        }
        return environment


def _name_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Give a message's reasoning the names that templates ask for."""
    given = (message[name] for name in _REASONING if message.get(name) is not None)
    reasoning = next(given, None)
    if reasoning is None:
        return message
    return {"thinking": reasoning} | message | {"reasoning_content": reasoning}


def _without_none(message: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a client sent as null: templates would print it as a word."""
    return {key: value for key, value in message.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return JSON values as they are and anything else as its type's name.

    A template gets nothing with methods that the sandbox does not know.
    """
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    return f"<{type(value).__name__}>"


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON for a prompt: Jinja's own filter escapes for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return (_fixed_date.get() or datetime.now()).strftime(form)


def _make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """Stand for `dict` without its attributes, which lead out of a sandbox."""
    return dict(*args, **kwargs)


def _safe_namespace() -> Any:
    """Return Jinja's `namespace` without names that begin with an underscore."""
    from jinja2.exceptions import SecurityError
    from jinja2.utils import Namespace

    def check(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"a chat template cannot set {name!r} on a namespace")

    class SafeNamespace(Namespace):
        def __init__(*args: Any, **kwargs: Any) -> None:
            self, *given = args
            attributes = dict(*given, **kwargs)
            for name in attributes:
                check(name)
            Namespace.__init__(self, attributes)

        def __setitem__(self, name: str, value: Any) -> None:
            check(name)
            super().__setitem__(name, value)

    return SafeNamespace
