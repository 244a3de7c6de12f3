"""Whether the words of a proposal may become a fact: its quote and its sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.memory.citation import LONGEST_QUOTE, collapsed, is_quoted
from core.memory.sentences import STOPS, split, split_lines
from core.memory.stages.normal import USER
from core.memory.stages.orders import is_injection, is_order
from core.memory.stages.support import (
    evidence_of,
    has_names,
    shares_word,
    states_value,
    unsupported_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.turns import SourceConversation, Turn

LONGEST_SENTENCE = 300
"""Characters of a fact's sentence at most."""
_MARKUP = re.compile(r"\[\[|\]\]|\[\^|\]\(|!\[|<[a-zA-Z/!]|`|https?://|^\s*[#>|]|\*\*|\n")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_ASKING = re.compile(
    r"(?:what|who|whom|whose|where|when|why|how|which|do|does|did|can|could|would|should|is|are|was"
    r"|were|has|have|will|may|wer|was|wo|wann|warum|wie|welche[rs]?|kannst|qui|que|quoi|où|quand"
    r"|comment|pourquoi|qué|quién|dónde|cuándo|cómo|por qué)\b",
    re.IGNORECASE,
)
_TAG = re.compile(r",[^,]{2,14}[?？]$")
"""`…, right?`, `…, isn't it?`: states what it asks about."""
_AROUND = " \"'“”„«»()>*-"
IsEcho = Callable[[str], bool]
"""Takes a text and returns whether it came out of memory."""


class Refused(Exception):
    """A proposal breaks a rule; the message says which."""


class KnownAlready(Exception):
    """A proposal repeats what is in memory; there is nothing to refuse and nothing to add."""


def quote_of(proposed: str, text: str) -> str:
    """Return the words as they stand in the turn, though the model may have changed their case."""
    quote = collapsed(proposed).strip('"“”„«»')
    if not quote or len(quote) > LONGEST_QUOTE:
        raise Refused("the quote is empty or too long")
    if is_quoted(quote, text):
        return quote
    plain = collapsed(text)
    at = plain.lower().find(quote.lower())
    if at < 0 or len(plain.lower()) != len(plain):
        raise Refused("the quote does not stand in the message")
    return plain[at : at + len(quote)]


def sentence_of(proposed: str) -> str:
    """Return a proposed sentence with a full stop.

    Raises:
        Refused: it is too long, has markup, is a question, or is more than one sentence.
    """
    text = proposed.strip()
    if not text or len(text) > LONGEST_SENTENCE:
        raise Refused("the sentence is empty or too long")
    if _MARKUP.search(text):
        raise Refused("the sentence has markup, a link or a line break")
    text = collapsed(text)
    if text.endswith(("?", "？")):
        raise Refused("it is a question, not a fact")
    text = text if text.endswith(tuple(STOPS)) else f"{text}."
    if len(split(text)) > 1:
        raise Refused("it is more than one sentence")
    return text


def check_support(
    sentence: str, quote: str, subject: str, value: str, conversation: SourceConversation
) -> None:
    """Refuse a fact that says more than the user wrote.

    Raises:
        Refused: it does.
    """
    wrote = "\n".join(turn.text for turn in conversation.turns if turn.role == "user")
    said = sentence if subject == USER else f"{sentence} {subject}"
    strange = unsupported_name(said, evidence_of(wrote))
    if strange is not None:
        raise Refused(f"“{strange}” does not stand in the user's words")
    if not states_value(quote, value):
        raise Refused("the quote does not have the value")
    if not has_names(value) and not shares_word(quote, f"{sentence} {value}"):
        raise Refused("the quote and the sentence have no word in common")


def check_words(
    sentence: str, quote: str, turn: Turn, conversation: SourceConversation, is_echo: IsEcho
) -> None:
    """Refuse orders, questions and pasted words, and what came out of memory.

    Raises:
        Refused: it is one of them.
        KnownAlready: it came out of memory.
    """
    if is_order(sentence) or is_order(quote):
        raise Refused("it is an order, not a fact")
    if is_echo(sentence) or is_echo(quote):
        raise KnownAlready
    places = list(_places(quote, turn.text))
    if places and all(_is_asked(quote, line) for _, line in places):
        raise Refused("it is a question, not a fact")
    if places and all(is_injection(paragraph) or is_order(line) for paragraph, line in places):
        raise Refused("the quote stands in an order to the assistant")
    own_words = conversation.kind == "note" or is_quoted(quote, without_pasted(turn.text))
    if not own_words:
        raise Refused("the quote stands in a code block or a block quote")


def _places(quote: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of a text that have the quote, with the sentences that do."""
    for paragraph in _PARAGRAPH.split(text):
        if not is_quoted(quote, paragraph):
            continue
        sentences = [part for part in split_lines(paragraph) if is_quoted(quote, part)]
        yield from ((paragraph, part) for part in sentences or [paragraph])


def _is_asked(quote: str, sentence: str) -> bool:
    """Return whether words are a question: all of one, or the beginning with its question word."""
    plain = collapsed(sentence).strip(_AROUND)
    if not plain.endswith(("?", "？")):
        return False
    if quote.rstrip("?？ ") == plain.rstrip("?？ "):
        return not _TAG.search(plain)
    return plain.startswith(quote) and _ASKING.match(quote) is not None


def without_pasted(text: str) -> str:
    """Return a Markdown text without its fenced code blocks and block quotes."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1] == fence else fence
        elif mark:
            fence = mark[1]
        elif not line.lstrip(" ").startswith(">"):
            kept.append(line)
    return "\n".join(kept)
