"""Statements in low English: subject, verb, rest. Linear time, no model.

A clause is read from the left: a subject of at most six words, a verb that `words` knows, and what
follows. First persons become "the user", the project that was named before stands for "we", and
pronouns for the person or thing that was named last. What cannot be read so states nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from core.memory.rules.patterns import relations, special
from core.memory.rules.statement import (
    EDGE,
    Scope,
    Statement,
    category_of,
    is_name,
    is_person_noun,
    place_of,
    plain,
    third,
    value_of,
)
from core.memory.rules.subjects import Subject, subject_of
from core.memory.rules.verbs import (
    BE,
    NOT,
    finite,
    lemma,
    participle,
    third_person,
    verb_at,
    verbs_of,
)
from core.memory.rules.words import (
    ADVERBS,
    AGENTS,
    ATTRIBUTES,
    BODY,
    BY_PREPOSITION,
    HUMAN,
    INNER,
    KIN,
    NUMBERS,
    PASSING,
    PETS,
    PREPOSITIONS,
    ROLES,
    VAGUE,
    VERBS,
    WEAK,
)
from core.memory.stages.normal import USER
from core.memory.stages.support import has_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.rules.clauses import Clause

_MOST_WORDS = 40

_CONTRACTIONS = {
    "i'm": "I am",
    "i've": "I have",
    "i'll": "I will",
    "i'd": "I would",
    "we'd": "we would",
    "we're": "we are",
    "we've": "we have",
    "we'll": "we will",
    "he's": "he is",
    "she's": "she is",
    "it's": "it is",
    "they're": "they are",
    "they've": "they have",
    "that's": "that is",
}

_HUMAN = frozenset({"home city", "employer", "role", "diet", "languages", "spouse", "birthday"})

_RELATIVE = re.compile(
    r"(?P<name>[A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?), who (?P<one>[^,]{3,120})"
    r"(?:, (?P<two>.{3,160}))?$"
)


def statements(clause: Clause, scope: Scope) -> Iterator[Statement]:
    """Yield what a clause states, and remember in `scope` who and what it names."""
    text = _expanded(clause.text)
    words = text.split()
    if not 2 <= len(words) <= _MOST_WORDS:
        return
    if (label := _LABEL.match(text)) and verb_at(text[label.end() :].split() or [""]):
        words = text[label.end() :].split()
        text = " ".join(words)
    found = special(text, clause.text, scope)
    if found:
        yield from found
        return
    yield from relations(text, clause.text, scope)
    said = _SAID.match(text)
    if said:
        yield from _plain_statements(f"{said['name']} {said['rest']}".split(), clause, scope)
        return
    relative = _RELATIVE.match(text)
    if relative:
        for part in relative.group("one", "two"):
            if part:
                yield from _plain_statements(f"{relative['name']} {part}".split(), clause, scope)
        return
    yield from _plain_statements(words, clause, scope)


def _plain_statements(words: list[str], clause: Clause, scope: Scope) -> Iterator[Statement]:
    words = _from_pronoun(words)
    at = verb_at(words)
    if at is None:
        return
    subject = subject_of(words[:at], scope)
    if subject is None:
        return
    if _is_vague(words, at):
        return
    subject = _own_thing(subject, words[at:], scope)
    for predicate in _coordinated(words[at:]):
        yield from _predicate(subject, predicate, clause.text, scope)
    yield from _agents(words[:at], words[at:], clause.text, scope)


_LABEL = re.compile(r"[A-Z][\w-]{1,20}(?: [\w-]{1,20}){0,3}: (?=[A-Z])")
"""`One more thing: Ana lives in Porto`; the rest is a clause of its own."""
_SAID = re.compile(
    r"(?P<name>[A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?) "
    r"(?:just )?(?:told (?:me|us)|said|says|mentioned)(?: that)? (?:she|he|they) (?P<rest>.{3,200})"
)


def _own_thing(subject: Subject, words: list[str], scope: Scope) -> Subject:
    """Return "our choir" as a thing of its own where it does something, or is somewhere.

    What such a noun *is* stays with its owner: "my editor is Vim" is about the user.
    """
    noun = subject.prefix
    if subject.name != USER or not noun or noun.split()[-1] in KIN | ROLES | ATTRIBUTES | BODY:
        return subject
    verbs, rest = verbs_of(words)
    if any(verb in (*BE, "has", "have", "had") for verb in verbs):
        is_placed = bool(rest) and plain(rest[0]) in PREPOSITIONS | {"every", "behind"}
        if not is_placed:
            return subject
    scope.thing = noun
    return Subject(name=noun, shown=f"the user's {noun}", kind="thing")


def _from_pronoun(words: list[str]) -> list[str]:
    """Leave out what stands before "we" and "I": "for messages we use Signal"."""
    if plain(words[0]) not in PREPOSITIONS:
        return words
    at = next((i for i, word in enumerate(words[:7]) if plain(word) in ("we", "i")), 0)
    return words[at:]


def _expanded(text: str) -> str:
    words = []
    for word in text.replace("’", "'").split():
        low = word.casefold()
        words.append(_CONTRACTIONS.get(low, word))
    return " ".join(words)


def _is_vague(words: list[str], at: int) -> bool:
    low = [plain(word) for word in words[: at + 3]]
    return any(word in VAGUE for word in low)


def _coordinated(words: list[str]) -> Iterator[list[str]]:
    """Cut "runs on Hugo and is hosted on Netlify" before the second verb."""
    start = 0
    for number in range(2, len(words) - 2):
        low = plain(words[number + 1])
        finite_verb = low in BE or low in ("has", "will") or (lemma(low) and low not in VERBS)
        if plain(words[number]) in ("and", "but") and finite_verb:
            yield words[start:number]
            start = number + 1
    yield words[start:]


def _agents(subject: list[str], words: list[str], quote: str, scope: Scope) -> Iterator[Statement]:
    """Yield what "is led by Mira" says about Mira."""
    text = " ".join(words)
    found = _AGENT.search(text)
    if found is None or found["verb"] not in AGENTS:
        return
    name, thing = found["name"], " ".join(subject)
    scope.meet(name)
    shown = third(_lower_first(thing), scope)
    yield Statement(
        subject=name,
        kind="person",
        property="responsible for",
        value=thing,
        exclusive=False,
        sentence=f"{shown[:1].upper()}{shown[1:]} is {found['verb']} by {name}",
        quote=quote,
    )


_AGENT = re.compile(r"\b(?P<verb>[a-z]+) by (?P<name>[A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?)")


def _lower_first(text: str) -> str:
    first, _, rest = text.partition(" ")
    return f"{first.casefold()} {rest}" if first in ("The", "Our", "My", "A", "An") else text


def _predicate(subject: Subject, words: list[str], quote: str, scope: Scope) -> Iterator[Statement]:
    verbs, rest = verbs_of(words)
    if not rest:
        return
    main = next((verb for verb in reversed(verbs) if verb not in ADVERBS | NOT), verbs[-1])
    if main in (*BE, "has", "have", "had") or (main == "got" and len(verbs) > 1):
        yield from _state(subject, verbs, rest, quote, scope)
        return
    base = lemma(main) or participle(main) or main
    if subject.first and base in INNER:
        return
    if base in WEAK and plain(rest[0]) != "over" and not has_names(" ".join(rest)):
        return
    if base in HUMAN and subject.kind == "thing" and not subject.shown.startswith("the "):
        subject = replace(subject, kind="person")
    negative = any(word in NOT for word in verbs)
    preposition = next((w for w in map(plain, rest[:2]) if w in PREPOSITIONS), "")
    name = BY_PREPOSITION.get((base, preposition)) or VERBS.get(base, ("", ""))[1]
    name = name or f"{base if base == main else third_person(base)} {preposition}".strip()
    yield _statement(subject, verbs, rest, quote, scope, property_name=name, negative=negative)


def _state(
    subject: Subject, verbs: list[str], rest: list[str], quote: str, scope: Scope
) -> Iterator[Statement]:
    """Read what something is or has."""
    low = [plain(word) for word in rest]
    if low[0] in PASSING or (low[0] in VAGUE):
        return
    if not any(v in BE for v in verbs):
        pet = next((word for word in low[:3] if word in PETS), "")
        name = "pet" if pet else _counted(low) or "has"
        yield _statement(subject, verbs, rest, quote, scope, property_name=name)
        return
    name = _state_property(subject, low, quote)
    if (
        name == "is"
        and subject.kind == "thing"
        and not subject.prefix
        and _is_passing(subject, low)
    ):
        return
    if name == "role" and subject.name != USER:
        scope.meet(subject.name)
    yield from _named_in_role(subject, rest, quote, scope)
    yield _statement(subject, verbs, rest, quote, scope, property_name=name)


def _counted(low: list[str]) -> str:
    """Return what is counted in "two 4 TB disks" or "1,200 members in spring"; empty: nothing."""
    end = next((at for at, word in enumerate(low) if word in PREPOSITIONS | {"and"}), len(low))
    if not low or not (low[0][:1].isdigit() or low[0] in NUMBERS) or not 2 <= end <= 5:
        return ""
    return f"number of {low[end - 1]}" if low[end - 1].isalpha() else ""


def _named_in_role(
    subject: Subject, rest: list[str], quote: str, scope: Scope
) -> Iterator[Statement]:
    """Yield what "our treasurer is Mei-Ling Tan" says about Mei-Ling Tan."""
    noun = subject.prefix.split()[-1] if subject.prefix else ""
    names = [word.strip(EDGE) for word in rest if is_name(word)]
    if not is_person_noun(noun) or not names or len(names) != len(rest) or len(names) > 3:
        return
    name = " ".join(names)
    scope.meet(name, noun=noun)
    yield Statement(
        subject=name,
        kind="person",
        property="role" if noun in ROLES else "relation",
        value=subject.prefix,
        exclusive=noun in ROLES,
        sentence=f"{name} is {subject.shown}",
        quote=quote,
    )


def _is_passing(subject: Subject, low: list[str]) -> bool:
    """Return whether it is only said how a common noun is: "the code is slow"."""
    is_common = subject.kind == "thing" and subject.shown.startswith("the ") and not subject.prefix
    return is_common and len(low) == 1 and low[0].isalpha()


_STATES = {
    "allergic": "allergy",
    "based": "location",
    "married": "spouse",
    "responsible": "role",
    "vegan": "diet",
    "vegetarian": "diet",
    "from": "origin",
    "called": "name",
    "named": "name",
    "on": "schedule",
    "at": "schedule",
    "every": "schedule",
    "due": "schedule",
}


def _state_property(subject: Subject, low: list[str], quote: str) -> str:
    """Return which property it is that something is."""
    if subject.prefix:
        return subject.prefix
    if _has_role(low):
        return "role"
    if low[0] == "in":
        return "schedule" if any(sign.isdigit() for sign in quote) else "location"
    return _STATES.get(low[0], "schedule" if low[0].endswith("day") else "is")


def _has_role(low: list[str]) -> bool:
    return any(word in ROLES or word in KIN for word in low[:6]) and low[0] in (
        *("a", "an", "the", "our", "my", "now", "also", "head", "responsible", "still"),
    )


def _verbs_shown(verbs: list[str], subject: Subject) -> str:
    return finite(verbs) if subject.first else " ".join(verbs)


def _statement(
    subject: Subject,
    verbs: list[str],
    rest: list[str],
    quote: str,
    scope: Scope,
    *,
    property_name: str,
    negative: bool = False,
) -> Statement:
    words = " ".join(rest)
    value = value_of(words)
    value = place_of(value) if property_name == "home city" else value
    category = category_of(value) if property_name in ("uses", "runs on", "is", "decision") else ""
    is_common = subject.kind == "thing" and subject.shown.startswith("the ")
    if property_name == "home city" and is_common:
        property_name = "location"
    is_human = property_name in _HUMAN and subject.kind == "thing"
    kind = "person" if is_human else subject.kind
    if kind == "person" and subject.name != USER:
        scope.meet(subject.name)
    name = category or property_name
    if subject.prefix and subject.name == USER and property_name != subject.prefix:
        name = subject.prefix
    shown = (
        subject.shown[:1].upper() + subject.shown[1:]
        if subject.shown[:4] == "the "
        else subject.shown
    )
    sentence = f"{shown} {_verbs_shown(verbs, subject)} {third(words, scope)}"
    return Statement(
        subject=subject.name,
        kind=kind,
        property=f"not {name}" if negative and name not in ("diet", "deploy day") else name,
        value=value,
        exclusive=_is_exclusive(name, value, subject, known=bool(category)),
        sentence=sentence,
        quote=quote,
    )


_MEASURES = frozenset({"cost", "weighs", "measures", "earns", "pays", "lasts", "expires"})
_PLACES = frozenset({"runs on", "lives in", "works at", "meets", "meetings", "hosting", "location"})


def _is_exclusive(name: str, value: str, subject: Subject, *, known: bool) -> bool:
    """Return whether a later value replaces this one.

    Args:
        name: the property.
        value: of it.
        subject: whose it is.
        known: whether the property is that of a known sort of tool.
    """
    if known or name in _HUMAN or name in (subject.prefix, "schedule"):
        return True
    first = name.split(maxsplit=1)[0]
    has_number = any(sign.isdigit() for sign in value)
    return name.startswith("number of ") or name in _PLACES or (first in _MEASURES and has_number)
