"""Who or what a clause is about. English."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.memory.rules.statement import EDGE, Scope, is_name, is_person_noun, plain
from core.memory.rules.words import ADVERBS, ATTRIBUTES, PREPOSITIONS, VAGUE
from core.memory.stages.normal import USER

_PRONOUNS = frozenset({"i", "we", "he", "she", "they", "it", "this", "that"})

_OUTSIDE = VAGUE | _PRONOUNS | {"me", "you", "us", "them", "there", "what", "nobody", "everyone"}
"""Words that no name of a subject has."""
_POSSESSIVE = re.compile(r"((?:[Tt]he )?[^\s']+(?: [^\s']+){0,2})'s ([\w -]{2,30})")

_OF = re.compile(
    r"(?:[Tt]he |[Aa] )?([\w-]+(?: [\w-]+)?) (?:of|for|on) (?:the )?([\w+#.-]+(?: [\w+#.-]+){0,2})"
)

_NAME = r"([A-Z][\w-]*(?: [A-Z][\w-]*){0,2})"

_PROJECTS = (
    re.compile(
        r"\b(?i:project|app|product|service|startup|tool|library)"
        r"(?i:, | is called | called | named )" + _NAME
    ),
    re.compile(rf"\b(?i:the|our|my) {_NAME} (?i:project|app|team|product|service|codebase|repo)\b"),
    re.compile(rf"\b(?i:project|codename|code name) {_NAME}"),
    re.compile(rf"\b(?i:working on|building|launching|developing) {_NAME}\b"),
)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The subject of a clause."""

    name: str
    """Of the fact."""
    shown: str
    """In its sentence."""
    kind: str
    """An `EntityKind`."""
    first: bool = False
    """Whether it stands for "I" or "we", so that its verb changes."""
    prefix: str = ""
    """Which part or property of it is meant: `sister` in "my sister lives in …"."""


def find_project(text: str) -> str:
    """Return the name of the project that a text is about; empty: none is named."""
    for pattern in _PROJECTS:
        found = pattern.search(text)
        if found:
            return found[1]
    return ""


def subject_of(words: list[str], scope: Scope) -> Subject | None:
    """Return the subject that words name; None: it is not clear."""
    words = [word for word in words if plain(word) not in ADVERBS]
    if not words:
        return None
    first = plain(words[0])
    if len(words) == 1 and first in _PRONOUNS:
        return pronoun(first, scope)
    if first in ("my", "our"):
        return _possessed(words, scope)
    named = " ".join(words).split(",")[0].strip()
    owner = _owner(named, scope)
    if owner:
        return owner
    return _named(named, scope)


def pronoun(word: str, scope: Scope) -> Subject | None:
    """Return whom a pronoun means; None: it is not clear."""
    if word == "i":
        return Subject(name=USER, shown="the user", kind="person", first=True)
    if word == "we":
        return team(scope)
    if word in ("he", "she"):
        return person(scope.person) if scope.may_be(word) else None
    name = scope.thing or scope.project
    shown = name if is_name(name) else f"the {name}"
    return Subject(name=name, shown=shown, kind="thing") if word == "it" and name else None


def team(scope: Scope) -> Subject:
    """Return whom "we" means."""
    if scope.project:
        return Subject(
            name=scope.project, shown=f"the {scope.project} team", kind="project", first=True
        )
    return Subject(name=USER, shown="the user's team", kind="person", first=True)


def person(name: str) -> Subject:
    """Return a person as a subject."""
    return Subject(name=name, shown=name, kind="person")


def _possessed(words: list[str], scope: Scope) -> Subject | None:
    """Read "my sister Ana", "my sister", "our deadline", "my dog Rex"."""
    rest = words[1:]
    split = next((i for i, word in enumerate(rest) if is_name(word)), len(rest))
    noun = " ".join(plain(word) for word in rest[:split])
    name = " ".join(word.strip(EDGE) for word in rest[split:] if is_name(word))
    last = noun.split()[-1] if noun else ""
    if name and is_person_noun(last):
        scope.meet(name, noun=last)
        return Subject(name=scope.whole(name), shown=name, kind="person")
    if name:
        scope.thing = name
        return Subject(name=name, shown=name, kind="thing")
    if not noun:
        return None
    if plain(words[0]) == "our" and scope.project:
        shown = f"{scope.project}'s {noun}"
        return Subject(name=scope.project, shown=shown, kind="project", prefix=noun)
    owner = "the team's" if plain(words[0]) == "our" else "the user's"
    return Subject(name=USER, shown=f"{owner} {noun}", kind="person", prefix=noun)


def _owner(named: str, scope: Scope) -> Subject | None:
    """Read "Ana's birthday", "the deadline for Orchard", "the owner of the repo"."""
    found = _POSSESSIVE.fullmatch(named)
    if found:
        name, noun = found[1].removeprefix("the ").removeprefix("The "), found[2]
        name = scope.whole(name)
        return Subject(name=name, shown=named, kind=_kind(name, scope), prefix=noun.casefold())
    found = _OF.fullmatch(named)
    if found:
        noun, name = found[1].casefold(), found[2]
        return Subject(name=name, shown=_lowered(named), kind=_kind(name, scope), prefix=noun)
    return None


def _named(named: str, scope: Scope) -> Subject | None:
    text = named.strip(EDGE)
    determined = re.match(r"(?:the|this|that|a|an|both|all) ", text, re.IGNORECASE)
    noun = text[determined.end() :] if determined else text
    if not noun or len(noun) > 60 or not _OUTSIDE.isdisjoint(map(plain, noun.split())):
        return None
    if ":" in noun or plain(noun.split()[0]) in PREPOSITIONS:
        return None
    if determined is None and not noun[0].isupper() and not noun[0].isdigit():
        return None
    low = noun.casefold()
    if scope.project and (low in ATTRIBUTES or low.split()[-1] in ATTRIBUTES):
        shown = f"{scope.project}'s {low}"
        return Subject(name=scope.project, shown=shown, kind="project", prefix=low)
    whole = scope.whole(noun)
    kind = _kind(whole, scope)
    if kind == "person":
        scope.person, scope.stranger = whole, ""
    else:
        scope.thing = noun
        if determined is None and all(map(is_name, noun.split())):
            scope.stranger = noun
    shown = f"the {noun}" if determined else noun
    return Subject(name=whole, shown=shown, kind=kind)


def _kind(name: str, scope: Scope) -> str:
    if name in scope.people:
        return "person"
    return "project" if name == scope.project else "thing"


def _lowered(text: str) -> str:
    first, _, rest = text.partition(" ")
    return f"{first.casefold()} {rest}" if first in ("The", "A", "An", "Our", "My") else text
