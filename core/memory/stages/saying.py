"""Whether a sentence that a model wrote says what the facts say that it cites. Pure, linear time.

This is a check of words, not of meaning: no word with a meaning of its own stands in the sentence
that does not stand in its facts, and no value of a fact is missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.memory.names import name_key
from core.memory.plain import unlinked
from core.memory.sentences import STOPS
from core.memory.stages.support import (
    content_words,
    evidence_of,
    folded,
    states_value,
    unsupported_name,
)
from core.memory.truth import states, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.memory.parts import Sentence
    from core.memory.stages.types import Fact
    from core.memory.truth import Insert

_MOST_FACTS = 3
"""Facts of one sentence."""
_JOINING = (
    "a an the he she it they his her its their him them who whose which where when while since as "
    "at in on of by for from to with into about over under between within after before during "
    "until and or but also too both this that these those there here now then later although "
    "because however currently today formerly is are was were be been being has have had does do "
    "did works lives uses called er sie es ihr sein seine ihre und auch dort der die das ist il "
    "elle et aussi son sa ses le la les est y su"
)
"""Words that a sentence may have of its own."""
_CLOSING = "\"'”’»)]}」』】）〉》*_~ "
_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff々ー]")
_ORDINARY = frozenset(" ,;:.!?'’-–—()。、，；：！？")
"""Punctuation that a sentence may have of its own."""
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|hardly|nicht|kein\w{0,2}|nie|ohne|ne|pas"
    r"|jamais|sans|nunca|sin)\b|n['’]t\b|[不没無未]|ない|ません|않|못|없"
)


def sentence_fault(
    sentence: Sentence, items: Sequence[Insert], labels: Sequence[Sequence[str]]
) -> str | None:
    """Return why a sentence does not state its facts; None: it does.

    Args:
        sentence: a new one.
        items: what it cites, at least one; without duplicates.
        labels: the footnotes of each.
    """
    if set(sentence.labels) != {label for group in labels for label in group}:
        return "A new sentence does not cite its facts exactly."
    if len(items) > _MOST_FACTS:
        return "A new sentence states too many facts."
    if len(items) > 1 and any(item.fact.exclusive for item in items):
        return "A fact that another one may replace needs a sentence of its own."
    if until(sentence.text) != items[0].until:
        return "A new sentence has another end date than its fact."
    return _words_fault(unlinked(sentence.text), items)


def _words_fault(text: str, items: Sequence[Insert]) -> str | None:
    facts = [item.fact for item in items]
    if not all(_has_value(text, fact) for fact in facts):
        return "A new sentence does not state the value of the fact that it cites."
    own = " ".join(f"{f.subject} {f.sentence} {f.quote} {f.value} {f.property}" for f in facts)
    said = " ".join([own, *(f"until {item.until}" for item in items if item.until)])
    if unsupported_name(text, evidence_of(said)) is not None:
        return "A new sentence has a name or a number that its facts do not have."
    if bool(_NEGATION.search(name_key(text))) != any(
        bool(_NEGATION.search(name_key(fact.sentence))) for fact in facts
    ):
        return "A new sentence negates its fact."
    if not _has_only_words_of(text, said):
        return "A new sentence has words that its facts do not have."
    if not text.rstrip(_CLOSING).endswith(tuple(STOPS)):
        return "A new sentence has no full stop."
    return None


def _has_value(text: str, fact: Fact) -> bool:
    """Return whether a text states a fact's value, as literally as the fact's own sentence does."""
    if states(fact.sentence, fact.value):
        return states(text, fact.value)
    return states_value(text, fact.value) and content_words(fact.sentence) <= content_words(text)


def _has_only_words_of(text: str, said: str) -> bool:
    """Return whether a text has no words and signs but those that were said, and joining ones."""
    known = frozenset(_WORD.findall(folded(f"{said} {_JOINING}")))
    stems = content_words(f"{said} {_JOINING}")
    if any(not char.isalnum() and char not in _ORDINARY and char not in said for char in text):
        return False
    if content_words(text) - stems:
        return False
    words = (word for word in _WORD.findall(folded(text)) if not _CJK.search(word))
    return all(word in known or content_words(word) & stems for word in words)
