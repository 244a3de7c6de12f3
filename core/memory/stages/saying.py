"""Whether a sentence that a model wrote says what the facts say that it cites. Pure, linear time.

This is a check of words, not of meaning: no word with a meaning of its own stands in the sentence
that does not stand in its facts, and no value of a fact is missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.memory.names import name_key
from core.memory.plain import unlinked
from core.memory.stages.support import content_words, states_value, unsupported_name
from core.memory.truth import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.memory.parts import Sentence
    from core.memory.truth import Insert

_MOST_FACTS = 3
"""Facts of one sentence."""
_JOINING = (
    "there also since while where when which who whose they them their these those after before "
    "during until both because although however then later now currently today formerly from with "
    "into about over under between within user users has have had does was were are being been "
    "this that and works lives uses named called made"
)
"""Words that a sentence may have of its own."""
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
    if any(
        not states_value(text, fact.value) and not _says_it_all(text, fact.sentence)
        for fact in facts
    ):
        return "A new sentence does not state the value of the fact that it cites."
    said = " ".join(f"{f.subject} {f.sentence} {f.quote} {f.value} {f.property}" for f in facts)
    dates = " ".join(item.until or "" for item in items)
    if unsupported_name(text, f"{said} {dates}") is not None:
        return "A new sentence has a name or a number that its facts do not have."
    if bool(_NEGATION.search(name_key(text))) != any(
        bool(_NEGATION.search(name_key(fact.sentence))) for fact in facts
    ):
        return "A new sentence negates its fact."
    if content_words(text) - content_words(f"{said} {_JOINING} until {dates}"):
        return "A new sentence has words that its facts do not have."
    return None


def _says_it_all(text: str, sentence: str) -> bool:
    """Return whether a text has all the words of a fact's own sentence."""
    return content_words(sentence) <= content_words(text)
