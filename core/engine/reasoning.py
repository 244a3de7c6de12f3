"""The reasoning channel: what a model thinks aloud, told from what it answers. Pure text.

Knows the channel's markup and whether a prompt leaves it open; knows no tokens and no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.engine.events import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from core.engine.parsing import AnswerParser, Found


@dataclass(frozen=True, kw_only=True)
class Channel:
    """The markup of a reasoning channel."""

    opening: str
    """The text that opens it; not empty."""
    closing: str
    """The text that closes it; not empty."""

    @property
    def marks(self) -> tuple[str, str]:
        """The tokens that it is made of, where it has tokens of its own."""
        return self.opening.removesuffix("thought"), self.closing

    def is_open(self, prompt: str) -> bool:
        """Return whether a rendered prompt ends inside the channel: the answer starts there."""
        return prompt.rstrip().endswith(self.opening.rstrip())

    def is_closed(self, prompt: str) -> bool:
        """Return whether a rendered prompt has closed the channel: the answer is to go without."""
        return prompt.rstrip().endswith(self.closing.strip())


# As the templates of the families write them. The first: DeepSeek, Qwen, GLM, MiniMax, MiniCPM.
_CHANNELS = (
    Channel(opening="<think>", closing="</think>"),
    Channel(opening="<longcat_think>", closing="</longcat_think>"),
    Channel(opening="<|think:start|>", closing="<|think:end|>"),
    Channel(opening="<|channel>thought", closing="<channel|>"),
    Channel(opening="[THINK]", closing="[/THINK]"),
    Channel(opening="<|START_THINKING|>", closing="<|END_THINKING|>"),
    Channel(opening="◁think▷", closing="◁/think▷"),
    Channel(opening="<seed:think>", closing="</seed:think>"),
    Channel(opening="<|open|>think<|sep|>", closing="<|close|>think<|sep|>"),
)


def find_channel(vocabulary: Container[str], template: str) -> Channel | None:
    """Return the reasoning channel of a model, or None.

    Args:
        vocabulary: the tokenizer's tokens.
        template: source of its chat template; empty: there is none.
    """
    return next((c for c in _CHANNELS if _has(c, vocabulary) or _writes(template, c)), None)


def _has(channel: Channel, vocabulary: Container[str]) -> bool:
    """Return whether tokens were made for the channel."""
    return all(mark in vocabulary for mark in channel.marks)


def _writes(template: str, channel: Channel) -> bool:
    return channel.opening in template and channel.closing in template


class ReasoningSplitter:
    """Tells reasoning from content, however the text is cut.

    White space around the markup belongs to neither. A channel may open more than once; its closing
    mark without an opening one is content. An answer that ends inside the channel is reasoning.
    So are marks within a call, which may write a file that has some.
    Where a form is enforced the channel comes before it or not at all: marks in it are content.
    """

    def __init__(
        self,
        channel: Channel,
        content: AnswerParser,
        *,
        inside: bool,
        formed: bool = False,
        shut: bool = False,
    ) -> None:
        """Take what to look for.

        Args:
            channel: the markup.
            content: reads what is no reasoning.
            inside: the answer starts in the channel.
            formed: what is no reasoning has a form that is enforced.
            shut: with a form, the answer never opens the channel.
        """
        self._formed = formed
        # Nothing but content will come.
        self._settled = formed and shut and not inside
        self._channel = channel
        self._content = content
        self._inside = inside
        self._held = ""
        # White space at the start of a stretch, which belongs to the markup before it if there is
        # one: after a mark it is dropped, at the start of the answer it waits for what follows.
        self._fresh = True
        self._after_mark = inside

    def push(self, text: str) -> Iterable[Found]:
        """Take more text and return what it decides."""
        self._held += text
        pieces: list[Found] = []
        while (at := self._next_mark()) != -1:
            before, self._held = self._held[:at], self._held[at + len(self._mark) :]
            pieces.extend(self._show(before, ends=True))
            if self.within_call:
                pieces.extend(self._show(self._mark, ends=False))
                continue
            self._inside = not self._inside
            self._fresh = self._after_mark = True
            self._settled = self._formed and not self._inside
        keep = 0 if self._settled else self._kept_back()
        ready, self._held = (
            self._held[: len(self._held) - keep],
            self._held[len(self._held) - keep :],
        )
        pieces.extend(self._show(ready, ends=False))
        self._settled = self._settled or self._has_begun
        return pieces

    def flush(self, *, cut: bool = False) -> Iterable[Found]:
        """Return what was held back: the answer is over."""
        held, self._held = self._held, ""
        pieces = list(self._show(held, ends=self._inside))
        pieces.extend(self._content.flush(cut=cut))
        return pieces

    @property
    def _has_begun(self) -> bool:
        """Whether the form has begun, so that no channel opens any more."""
        return self._formed and not self._inside and not self._fresh

    def _next_mark(self) -> int:
        """Return where the next mark is; -1: there is none, or none that counts."""
        at = -1 if self._settled else self._held.find(self._mark)
        if self._formed and not self._inside and self._held[: max(at, 0)].strip():
            self._settled = True
        return -1 if self._settled else at

    def _kept_back(self) -> int:
        return _held_back(self._held, self._mark, spaces=self._inside or self._fresh)

    @property
    def within_call(self) -> bool:
        """Whether the content so far ends within a call."""
        return not self._inside and self._content.within_call

    @property
    def inside(self) -> bool:
        """Whether the channel is open."""
        return self._inside

    @property
    def _mark(self) -> str:
        return self._channel.closing if self._inside else self._channel.opening

    def _show(self, text: str, *, ends: bool) -> Iterator[Found]:
        """Yield text of the present stretch.

        Args:
            text: more of it.
            ends: a mark follows, or the answer ends inside the channel.
        """
        if self._fresh and self._after_mark:
            text = text.lstrip()
        if ends and (self._inside or (self._fresh and not text.strip())):
            text = text.rstrip()
        if not text:
            return
        self._fresh = False
        if self._inside:
            yield ReasoningDelta(text=text)
        else:
            yield from self._content.push(text)


class FormAfterMark:
    """Tells a form from all that comes before a mark, which is reasoning whatever else it says.

    For markup with several channels of content, of which the last one holds the form.
    """

    def __init__(self, before: AnswerParser, mark: str) -> None:
        """Take what reads the text before the mark, and the mark."""
        self._before = before
        self._mark = mark
        self._held = ""
        self._found = False

    @property
    def within_call(self) -> bool:
        """Return False: no call is looked for."""
        return False

    def push(self, text: str) -> Iterable[Found]:
        """Take more text and return what it decides."""
        if self._found:
            return (TextDelta(text=text),) if text else ()
        self._held += text
        before, mark, form = self._held.partition(self._mark)
        if not mark:
            keep = _held_back(before, self._mark, spaces=False)
            self._held = before[len(before) - keep :]
            return _as_reasoning(self._before.push(before[: len(before) - keep]))
        self._found, self._held = True, ""
        # The mark as well: it ends what was begun.
        pieces = _as_reasoning(self._before.push(before + mark))
        return [*pieces, TextDelta(text=form)] if form else pieces

    def flush(self, *, cut: bool = False) -> Iterable[Found]:
        """Return what was held back: the answer is over."""
        if self._found:
            return ()
        held, self._held = self._held, ""
        return [
            *_as_reasoning(self._before.push(held)),
            *_as_reasoning(self._before.flush(cut=cut)),
        ]


def _as_reasoning(pieces: Iterable[Found]) -> list[Found]:
    return [ReasoningDelta(text=p.text) if isinstance(p, TextDelta) else p for p in pieces]


class PlainText:
    """Content that is searched for nothing."""

    @property
    def within_call(self) -> bool:
        """Return False: no call is looked for."""
        return False

    def push(self, text: str) -> Iterable[Found]:
        """Return it as it is."""
        return (TextDelta(text=text),) if text else ()

    def flush(self, *, cut: bool = False) -> Iterable[Found]:  # noqa: ARG002
        """Return nothing: nothing is held back."""
        return ()


def _held_back(text: str, mark: str, *, spaces: bool) -> int:
    """Return how much of the end of `text` may belong to a mark to come.

    Args:
        text: what is not shown yet; holds no whole mark.
        mark: what is looked for.
        spaces: white space before a mark would be dropped with it.
    """
    size = next(
        (n for n in range(min(len(mark) - 1, len(text)), 0, -1) if mark.startswith(text[-n:])), 0
    )
    if not spaces:
        return size
    rest = text[: len(text) - size]
    return size + len(rest) - len(rest.rstrip())
