"""What is stated, what was named before, and the words of both. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from core.memory.rules.words import (
    ADVERBS,
    CATEGORIES,
    KIN,
    MEN,
    PREPOSITIONS,
    ROLES,
    WOMEN,
)

EDGE = "\"'“”‘’`,.;:!?()*"

_MOST_VALUE_WORDS = 12

_FIRST = {"i": "the user", "me": "the user", "my": "the user's", "mine": "the user's"}

_FIRST |= {"myself": "the user", "we": "the team", "us": "the team", "our": "the team's"}

_FIRST |= {"ours": "the team's", "i'm": "the user is", "i've": "the user has"}

_TAIL = re.compile(
    r"(?i:,? (?:because|so|as of|starting|effective|since|so that|which|who|when|after|before"
    r"|instead of|rather than|though|although|while|unless|as long as|due to|thanks to)\b.*$)"
)
_LAST_WORDS = re.compile(
    r"(?i:[ ,]+(?:now|already|too|as well|these days|anymore|any more|btw|by the way|again|though"
    r"|at the moment|currently|for now|right now|instead|officially|permanently|full[- ]time"
    r"|yesterday|today|(?:last|this) (?:week|month|year|spring|summer|autumn|fall|winter)))+$"
)

_ARTICLES = frozenset({"a", "an", "the", "our", "my"}) | ADVERBS
_STATE_WORDS = frozenset({"allergic", "based", "married", "responsible", "called", "named", "due"})

SINGULAR = {
    "am": "is",
    "are": "is",
    "were": "was",
    "don't": "doesn't",
    "haven't": "hasn't",
    "aren't": "isn't",
    "weren't": "wasn't",
    "have": "has",
    "do": "does",
}
"""Forms of the first person, and the third person singular for them."""
_NAME_WORD = re.compile(r"[^\W\d_a-zß-öø-ÿ]")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One thing that a clause states; becomes a proposal of the `extract` stage."""

    subject: str
    """What it is about."""
    kind: str
    """An `EntityKind`."""
    property: str
    """What is stated."""
    value: str
    """Words of the clause."""
    exclusive: bool
    """Whether a later value replaces it."""
    sentence: str
    """In the third person, without a full stop."""
    quote: str
    """Words of the user."""


@dataclass(kw_only=True)
class Scope:
    """What was named before, for pronouns."""

    person: str = ""
    """The person named last."""
    thing: str = ""
    """The thing named last."""
    stranger: str = ""
    """A name that came after `person`, of which it is not known whether it is a person's."""
    project: str = ""
    """What the conversation is about, as "we" and "our" mean it."""
    people: set[str] = field(default_factory=set)
    """Who is known to be a person."""
    pronouns: dict[str, str] = field(default_factory=dict)
    """`he` or `she`, of whom that is known."""

    def meet(self, name: str, *, noun: str = "") -> None:
        """Remember a person, and from "sister" or "husband" which pronoun is theirs."""
        name = self.whole(name)
        self.person, self.stranger = name, ""
        self.people.add(name)
        word = noun.removesuffix("-in-law")
        if word in MEN or word in WOMEN:
            self.pronouns[name] = "he" if word in MEN else "she"

    def may_be(self, pronoun: str) -> bool:
        """Return whether a pronoun can mean the person named last."""
        if self.stranger or not self.person:
            return False
        return self.pronouns.get(self.person, pronoun) == pronoun

    def whole(self, name: str) -> str:
        """Return the full name of a person who is called by the first one now."""
        fitting = [known for known in self.people if known.startswith(f"{name} ")]
        return fitting[0] if len(fitting) == 1 else name


def plain(word: str) -> str:
    """Return a word as it is compared: without case and punctuation."""
    return word.strip(EDGE).casefold()


def is_name(word: str) -> bool:
    """Return whether a word is capitalized, and not "I"."""
    low = word.strip(EDGE)
    return bool(low) and bool(_NAME_WORD.match(low)) and low != "I"


def is_person_noun(word: str) -> bool:
    """Return whether a noun says what somebody is to somebody, or does."""
    return word.removesuffix("-in-law") in KIN or word in ROLES


def third(text: str, scope: Scope | None = None) -> str:
    """Return words with first persons as "the user" and "the team"."""
    team = f"the {scope.project} team" if scope and scope.project else "the user's team"
    found: list[str] = []
    follows = False  # whether the word before was "I" or "we"
    for word in text.split():
        low = word.strip(EDGE).casefold()
        if low in _FIRST:
            shown = _FIRST[low].replace("the team", team)
            found.append(word.casefold().replace(low, shown))
        else:
            found.append(_singular(word) if follows else word)
        follows = low in ("i", "we")
    return " ".join(found)


def _singular(verb: str) -> str:
    """Return the verb after "I" as it is after "the user", as far as that is certain."""
    return SINGULAR.get(verb, verb)


def value_of(text: str) -> str:
    """Return the value in what follows a verb: without side clauses, at most twelve words."""
    short = _LAST_WORDS.sub("", _TAIL.sub("", text))
    words = short.split()
    while len(words) > 1 and plain(words[0]) in PREPOSITIONS | _ARTICLES | _STATE_WORDS:
        words = words[1:]
    return " ".join(words[:_MOST_VALUE_WORDS]).strip(EDGE + " ")


def place_of(value: str) -> str:
    """Return a place without what follows it: "Uppsala in the autumn"."""
    return _AFTER_PLACE.split(value, maxsplit=1)[0]


_AFTER_PLACE = re.compile(r",? (?:in|on|at|next|this|last|from|by|with|after|before|for|until) ")


def category_of(value: str) -> str:
    """Return what sort of tool a value names: `database`; empty: none that is known."""
    low = [plain(word) for word in value.split()[:4]]
    for category, names in CATEGORIES.items():
        if any(word in names for word in low):
            return category
    return ""
