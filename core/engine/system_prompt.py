"""System messages for chat templates that do not show them, in the words of user messages.

Some templates refuse the role (Gemma's), some leave it out, some show one system message and only
at the beginning. Pure: messages in, messages out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from core.engine.request import ChatPrompt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Message = Mapping[str, Any]

_FIRST, _SECOND = "First system message.", "Second system message."
_USER = {"role": "user", "content": "Hello."}
_ASSISTANT = {"role": "assistant", "content": "Hello!"}


@dataclass(frozen=True, kw_only=True)
class SystemSupport:
    """Which system messages a chat template shows."""

    first: bool
    """One, at the beginning."""
    several: bool
    """Several of them, at the beginning."""
    later: bool
    """Also one between later turns."""


def probe_support(render: Callable[[ChatPrompt], str | None]) -> SystemSupport:
    """Find out by small conversations which system messages a template shows.

    Args:
        render: returns the text of a conversation, or None if the template refuses it.
    """
    one, two = ({"role": "system", "content": text} for text in (_FIRST, _SECOND))

    def shows(*messages: Message) -> bool:
        text = render(ChatPrompt(messages=messages)) or ""
        return all(m["content"] in text for m in messages if m["role"] == "system")

    first = shows(one, _USER)
    return SystemSupport(
        first=first,
        several=first and shows(one, two, _USER),
        later=first and shows(one, _USER, _ASSISTANT, two, _USER),
    )


def show_system(messages: Sequence[Message], support: SystemSupport) -> list[Message]:
    """Return a conversation whose system messages the template shows, in their order.

    Those at the beginning become one message if several are not shown. One that is not shown where
    it stands becomes part of the user message beside it, or a user message where there is none.

    Args:
        messages: the conversation.
        support: what the template shows.
    """
    leading = list(takewhile(_is_system, messages))
    rest = messages[len(leading) :]
    if not support.later:
        rest = _in_words(rest)
    if not support.first:
        return _in_words([*leading, *rest])
    if len(leading) > 1 and not support.several:
        leading = [{**leading[0], "content": _joined(leading)}]
    return [*leading, *rest]


def _in_words(messages: Iterable[Message]) -> list[Message]:
    """Turn system messages into user messages, joined with the user messages beside them."""
    runs: list[list[Message]] = []
    after_system = False
    for message in messages:
        system = _is_system(message)
        beside = bool(runs) and runs[-1][-1].get("role") in ("system", "user")
        if beside and (system or (after_system and message.get("role") == "user")):
            runs[-1].append(message)
        else:
            runs.append([message])
        after_system = system
    return [_one(run) for run in runs]


def _one(run: Sequence[Message]) -> Message:
    """Return a run of messages as one; a run of several holds system and user messages only."""
    own = next((message for message in run if not _is_system(message)), None)
    if own is not None and len(run) == 1:
        return own
    return {**(own or {}), "role": "user", "content": _joined(run)}


def _joined(messages: Iterable[Message]) -> str:
    return "\n\n".join(text for message in messages if (text := message.get("content")))


def _is_system(message: Message) -> bool:
    return message.get("role") == "system"
