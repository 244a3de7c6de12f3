"""Cut what a user wrote into clauses that may state something. English punctuation; linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.memory.rules.words import COLON_LEADS, LEADS, QUESTION_STARTS

_TITLES = r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\bNo\.)"
_SENTENCE = re.compile(
    rf"(?<=[.!?]){_TITLES}[\"')\]]?\s+|\n+|;\s+| [:;]-?[()DP](?=\s|$)|(?<=[。！？])"
)
_BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)]|#{1,6})[ \t]+")


def _words(words: tuple[str, ...]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_LEAD = re.compile(
    rf"(?:(?:{_words(LEADS)})\b[\s,:!–—-]+|(?:{_words(COLON_LEADS)})[ ]?[,:–—-]\s*)", re.IGNORECASE
)
_WHEN = re.compile(
    r"(?:As of|Since|Starting|Beginning|From|In|On|Last|This|Next|Every|For|At|After|Until|By"
    r"|During|Yesterday|Today|Recently|Currently|Right now|These days|Lately)\b[^,.]{0,40}, "
)
_PRONOUN = r"(?:i|we|she|he|they|it|i['’](?:m|ve|ll)|we['’](?:re|ve|ll)|(?:it|he|she)['’]s)\b"
_PERSON = rf"(?:{_PRONOUN}|(?:my|our|the|there|this|that)\b)"
_ASKING = r"(?:what|how|why|can|could|should|would|is|are|do|does|any|please)\b"
_CLAUSE = re.compile(
    rf"(?i:,? (?:and|but|so|while|whereas) (?={_PERSON}|(?:if|when)\b))"
    r"|(?i:,? (?:because|although|though|which means|so that) )"
    rf"| [–—-] |(?i:, (?:so |and |but )?(?={_ASKING}))|(?i:: (?={_PERSON}))"
    r"|(?:, (?:and |but |so )?| and | but | so )"
    r"(?=[A-Z][\w'-]+(?: [A-Z][\w'-]+)? (?:is|has|was|will|[a-z]+s)\b)|(?i:, (?=" + _PRONOUN + "))"
    # two statements with a comma between them
    r"|(?i:, (?:and |but )?(?=(?:the|my|our) [\w-]{2,20}(?: [\w-]{2,20})? (?:is|are|was|were|has"
    r"|runs|costs|lives|works|meets|uses)\b))"
)
_FINAL = " .!?,;:…。！？"
_LONGEST_SENTENCE = 400
_MOST_SENTENCES = 2_000


@dataclass(frozen=True, kw_only=True)
class Clause:
    """A part of a sentence, as it stands there."""

    text: str
    """Without leads ("by the way,") and the final punctuation."""
    whole: str
    """The sentence from its first clause on, for clauses that need it."""


def clauses(text: str) -> Iterator[Clause]:
    """Yield the clauses of a text that may state something; questions and requests are left out."""
    for number, raw in enumerate(_SENTENCE.split(text)):
        if number >= _MOST_SENTENCES:
            return
        sentence = _plain(raw)
        if sentence and len(sentence) <= _LONGEST_SENTENCE:
            yield from _parts(sentence)


def _parts(sentence: str) -> Iterator[Clause]:
    asks = sentence.endswith(("?", "？"))
    parts = [part.strip(" ,") for part in _CLAUSE.split(sentence)]
    for number, part in enumerate(parts):
        text = _without_leads(part).rstrip(_FINAL)
        last_of_question = asks and number == len(parts) - 1
        if text and not last_of_question and not _asks(text):
            yield Clause(text=text, whole=sentence.rstrip(_FINAL))


def _asks(text: str) -> bool:
    first = text.split(maxsplit=1)[0].casefold().strip(",")
    return first in QUESTION_STARTS and "call me " not in text


def _plain(raw: str) -> str:
    bullet = _BULLET.match(raw)
    text = raw[bullet.end() :] if bullet else raw
    return _without_leads(" ".join(text.split()))


def _without_leads(text: str) -> str:
    for _ in range(3):
        found = _LEAD.match(text) or _WHEN.match(text)
        if found is None:
            return text
        text = text[found.end() :]
    return text
