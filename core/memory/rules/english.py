"""Statements in plain English: subject, verb, rest. Linear time, no model.

A clause is read from the left: a subject of at most six words, a verb that `words` knows, and what
follows. First persons become "the user", the project that was named before stands for "we", and
pronouns for the person or thing that was named last. What cannot be read so states nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.memory.rules.words import (
    ADVERBS,
    ATTRIBUTES,
    BY_PREPOSITION,
    CATEGORIES,
    KIN,
    PASSING,
    PETS,
    PREPOSITIONS,
    ROLES,
    VAGUE,
    VERBS,
)
from core.memory.stages.normal import USER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.rules.clauses import Clause

_MOST_SUBJECT_WORDS = 6
_MOST_WORDS = 40
_MOST_VALUE_WORDS = 12
_EDGE = "\"'“”‘’`,.;:!?()*"
_BE = {"am": "is", "is": "is", "are": "are", "was": "was", "were": "were", "be": "be"}
_AUXILIARIES = frozenset({"has", "have", "had", "will", "do", "does", "did", "been", "being"})
_NOT = frozenset({"not", "don't", "doesn't", "didn't", "isn't", "aren't", "never", "no"})
_NOT |= frozenset({"won't", "wasn't", "weren't", "hasn't", "haven't", "can't"})
_FIRST = {"i": "the user", "me": "the user", "my": "the user's", "mine": "the user's"}
_FIRST |= {"myself": "the user", "we": "the team", "us": "the team", "our": "the team's"}
_FIRST |= {"ours": "the team's", "i'm": "the user is", "i've": "the user has"}
_CONTRACTIONS = {
    "i'm": "I am",
    "i've": "I have",
    "i'll": "I will",
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
_TAIL = re.compile(
    r"(?i:,? (?:because|since|so that|which|who|when|after|before|instead of|rather than|though"
    r"|although|while|unless|as long as|due to|thanks to)\b.*$)"
)
_LAST_WORDS = re.compile(
    r"(?i:[ ,]+(?:now|already|too|as well|these days|anymore|any more|btw|by the way|again|though"
    r"|at the moment|currently|for now|right now|instead|officially|permanently|full[- ]time))+$"
)
_HUMAN = frozenset({"home city", "employer", "role", "diet", "languages", "spouse", "birthday"})
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
    project: str = ""
    """What the conversation is about, as "we" and "our" mean it."""
    people: set[str] = field(default_factory=set)
    """Who is known to be a person."""


@dataclass(frozen=True, kw_only=True)
class _Subject:
    name: str  # of the fact
    shown: str  # in the sentence
    kind: str
    plural: bool = False
    prefix: str = ""  # becomes the beginning of the property: `sister` in "my sister lives in …"


def find_project(text: str) -> str:
    """Return the name of the project that a text is about; empty: none is named."""
    for pattern in _PROJECTS:
        found = pattern.search(text)
        if found:
            return found[1]
    return ""


_NAME = r"([A-Z][\w-]*(?: [A-Z][\w-]*){0,2})"
_PROJECTS = (
    re.compile(
        r"\b(?i:project|app|product|service|startup|tool|library)(?i: is)?(?i: called| named),? "
        + _NAME
    ),
    re.compile(rf"\b(?i:the|our|my) {_NAME} (?i:project|app|team|product|service|codebase|repo)\b"),
    re.compile(rf"\b(?i:project|codename|code name) {_NAME}"),
    re.compile(rf"\b(?i:working on|building|launching|developing) {_NAME}\b"),
)


def statements(clause: Clause, scope: Scope) -> Iterator[Statement]:
    """Yield what a clause states, and remember in `scope` who and what it names."""
    text = _expanded(clause.text)
    words = text.split()
    if not 2 <= len(words) <= _MOST_WORDS:
        return
    special = _special(text, clause.text, scope)
    if special:
        yield from special
        return
    yield from _relations(text, clause.text, scope)
    relative = _RELATIVE.match(text)
    if relative:
        for part in relative.group("one", "two"):
            if part:
                yield from _plain_statements(f"{relative['name']} {part}".split(), clause, scope)
        return
    yield from _plain_statements(words, clause, scope)


def _plain_statements(words: list[str], clause: Clause, scope: Scope) -> Iterator[Statement]:
    at = _verb_at(words)
    if at is None:
        return
    subject = _subject(words[:at], scope)
    if subject is None:
        return
    if _is_vague(words, at):
        return
    yield from _predicate(subject, words[at:], clause.text, scope)


def _expanded(text: str) -> str:
    words = []
    for word in text.replace("’", "'").split():
        plain = word.casefold()
        words.append(_CONTRACTIONS.get(plain, word))
    return " ".join(words)


def _plain(word: str) -> str:
    return word.strip(_EDGE).casefold()


# Finding the verb


def _verb_at(words: list[str]) -> int | None:
    for number, word in enumerate(words[: _MOST_SUBJECT_WORDS + 1]):
        plain = _plain(word)
        if number == 0:
            continue
        if plain in _BE or plain in _AUXILIARIES or plain in _NOT:
            return number
        if _is_finite(plain, words[:number]):
            return number
    return _unknown_verb(words)


def _is_finite(word: str, before: list[str]) -> bool:
    """Return whether a word is a known verb in a form that fits the subject before it."""
    first = _plain(before[0])
    if not lemma(word) or (len(before) == 1 and first in ("the", "our", "my", "a", "an")):
        return False
    plural = first in ("i", "we", "they", "you") or _plain(before[-1]).endswith("s")
    return word not in VERBS or plural or any(_plain(w) in ("and", *ADVERBS) for w in before)


def _unknown_verb(words: list[str]) -> int | None:
    """Return where a verb must stand that is not known: after "I", "we" or a name."""
    at = next((i for i in (1, 2) if i < len(words) and _plain(words[i]) not in ADVERBS), None)
    if at is None or at + 1 >= len(words):
        return None
    word = words[at]
    if _plain(words[0]) in ("i", "we") and word.isalpha() and word.islower():
        return at
    ends = word.endswith(("ed", "es", "ts", "ks", "ns", "rs", "ls", "ps", "ds"))
    return at if at == 1 and _is_name(words[0]) and word.islower() and ends else None


def lemma(word: str) -> str:
    """Return the base form of a finite form of a known verb; empty: it is none."""
    return _FORMS.get(word, "")


def third_person(verb: str) -> str:
    """Return a verb's form for he, she and it: `go` → `goes`."""
    if verb in ("have", "do", "go"):
        return {"have": "has", "do": "does", "go": "goes"}[verb]
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _forms() -> dict[str, str]:
    found: dict[str, str] = {}
    for verb, (past, _property) in VERBS.items():
        for form in (verb, past, third_person(verb)):
            found.setdefault(form, verb)
    return found


_FORMS = _forms()


# Subjects


def _subject(words: list[str], scope: Scope) -> _Subject | None:
    words = [word for word in words if _plain(word) not in ADVERBS]
    if not words:
        return None
    first = _plain(words[0])
    if len(words) == 1 and first in _PRONOUNS:
        return _pronoun(first, scope)
    if first in ("my", "our"):
        return _possessed(words, scope)
    named = " ".join(words).split(",")[0].strip()
    owner = _owner(named, scope)
    if owner:
        return owner
    return _named(named, scope)


_PRONOUNS = frozenset({"i", "we", "he", "she", "they", "it", "this", "that"})


def _pronoun(word: str, scope: Scope) -> _Subject | None:
    if word == "i":
        return _Subject(name=USER, shown="the user", kind="person")
    if word == "we":
        return _team(scope)
    if word in ("he", "she"):
        return _person(scope.person) if scope.person else None
    name = scope.thing or scope.project
    return _Subject(name=name, shown=name, kind="thing") if word == "it" and name else None


def _team(scope: Scope) -> _Subject:
    if scope.project:
        return _Subject(name=scope.project, shown=f"the {scope.project} team", kind="project")
    return _Subject(name=USER, shown="the user's team", kind="person")


def _person(name: str) -> _Subject:
    return _Subject(name=name, shown=name, kind="person")


def _possessed(words: list[str], scope: Scope) -> _Subject | None:
    """Read "my sister Ana", "my sister", "our deadline", "my dog Rex"."""
    rest = words[1:]
    split = next((i for i, word in enumerate(rest) if _is_name(word)), len(rest))
    noun = " ".join(_plain(word) for word in rest[:split])
    name = " ".join(word.strip(_EDGE) for word in rest[split:] if _is_name(word))
    last = noun.split()[-1] if noun else ""
    if name and (last in KIN or last in ROLES):
        scope.person = name
        scope.people.add(name)
        return _Subject(name=name, shown=name, kind="person", prefix=noun)
    if name:
        scope.thing = name
        return _Subject(name=name, shown=name, kind="thing", prefix=noun)
    if not noun:
        return None
    if _plain(words[0]) == "our" and scope.project:
        shown = f"{scope.project}'s {noun}"
        return _Subject(name=scope.project, shown=shown, kind="project", prefix=noun)
    owner = "the team's" if _plain(words[0]) == "our" else "the user's"
    plural = last.endswith("s") and not last.endswith("ss")
    return _Subject(name=USER, shown=f"{owner} {noun}", kind="person", prefix=noun, plural=plural)


def _owner(named: str, scope: Scope) -> _Subject | None:
    """Read "Ana's birthday", "the deadline for Orchard", "the owner of the repo"."""
    found = _POSSESSIVE.fullmatch(named)
    if found:
        name, noun = found[1].removeprefix("the ").removeprefix("The "), found[2]
        return _Subject(name=name, shown=named, kind=_kind(name, scope), prefix=noun.casefold())
    found = _OF.fullmatch(named)
    if found:
        noun, name = found[1].casefold(), found[2]
        return _Subject(name=name, shown=_lowered(named), kind=_kind(name, scope), prefix=noun)
    return None


_POSSESSIVE = re.compile(r"((?:[Tt]he )?[^\s']+(?: [^\s']+){0,2})'s ([\w -]{2,30})")
_OF = re.compile(
    r"(?:[Tt]he |[Aa] )?([\w-]+(?: [\w-]+)?) (?:of|for|on) (?:the )?([\w+#.-]+(?: [\w+#.-]+){0,2})"
)


def _named(named: str, scope: Scope) -> _Subject | None:
    text = named.strip(_EDGE)
    determined = re.match(r"(?:the|this|that|a|an|both|all) ", text, re.IGNORECASE)
    noun = text[determined.end() :] if determined else text
    if not noun or len(noun) > 60 or any(_plain(word) in VAGUE for word in noun.split()):
        return None
    if determined is None and not noun[0].isupper() and not noun[0].isdigit():
        return None
    plain = noun.casefold()
    plural = plain.endswith("s") and not plain.endswith("ss") and not _is_name(noun.split()[-1])
    if scope.project and (plain in ATTRIBUTES or plain.split()[-1] in ATTRIBUTES):
        shown = f"{scope.project}'s {plain}"
        return _Subject(
            name=scope.project, shown=shown, kind="project", prefix=plain, plural=plural
        )
    kind = _kind(noun, scope)
    if kind == "person":
        scope.person = noun
    else:
        scope.thing = noun
    shown = f"the {noun}" if determined else noun
    return _Subject(name=noun, shown=shown, kind=kind, plural=plural or " and " in noun)


def _kind(name: str, scope: Scope) -> str:
    if name in scope.people:
        return "person"
    return "project" if name == scope.project else "thing"


def _is_name(word: str) -> bool:
    plain = word.strip(_EDGE)
    return bool(plain) and bool(_NAME_WORD.match(plain)) and plain != "I"


def _lowered(text: str) -> str:
    first, _, rest = text.partition(" ")
    return f"{first.casefold()} {rest}" if first in ("The", "A", "An", "Our", "My") else text


# Predicates


def _is_vague(words: list[str], at: int) -> bool:
    plain = [_plain(word) for word in words[: at + 3]]
    return any(word in VAGUE for word in plain)


def _relations(text: str, quote: str, scope: Scope) -> Iterator[Statement]:
    """Yield who somebody is: "my sister Ana", "Jonas, our designer,", "hired Pavel as a cook"."""
    for pattern in (_BESIDE_NAME, _AFTER_NAME, _HIRED):
        for found in pattern.finditer(text):
            what, name = " ".join(found["what"].split()), found["name"]
            last = what.split()[-1].casefold()
            if last not in ROLES and last not in KIN:
                continue
            scope.person = name
            scope.people.add(name)
            whose = third(f"{found['whose'] or 'a'} {what}", scope)
            yield Statement(
                subject=name,
                kind="person",
                property="relation" if last in KIN else "role",
                value=what,
                exclusive=last not in KIN,
                sentence=f"{name} is {whose}",
                quote=quote,
            )


_PERSON_NAME = r"(?P<name>[A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?)"
_WHAT = r"(?P<what>(?:[a-z][\w-]{0,20} ){0,2}[A-Za-z][\w-]{1,20})"
_BESIDE_NAME = re.compile(rf"\b(?i:(?P<whose>my|our)) {_WHAT},? {_PERSON_NAME}")
_AFTER_NAME = re.compile(
    rf"\b{_PERSON_NAME}(?:,| \() ?(?P<whose>my|our|the|a|an) {_WHAT}"
    r"(?=,|\)|$| of | at | for | from | in | on )"
)
_HIRED = re.compile(
    rf"\b(?:hired|promoted|appointed|made|named|welcomed) {_PERSON_NAME}"
    rf"(?: as| to)?(?: (?P<whose>a|an|the|our|my))? {_WHAT}(?=,|$| for | of | in | on )"
)
_RELATIVE = re.compile(
    r"(?P<name>[A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?), who (?P<one>[^,]{3,120})"
    r"(?:, (?P<two>.{3,160}))?$"
)


def _predicate(
    subject: _Subject, words: list[str], quote: str, scope: Scope
) -> Iterator[Statement]:
    verbs, rest = _verbs(words)
    if not rest:
        return
    main = verbs[-1]
    if main in _BE or main in ("has", "have", "had"):
        yield from _state(subject, verbs, rest, quote, scope)
        return
    base = lemma(main) or _participle(main) or main
    negative = any(word in _NOT for word in verbs)
    preposition = next((w for w in map(_plain, rest[:2]) if w in PREPOSITIONS), "")
    name = BY_PREPOSITION.get((base, preposition)) or VERBS.get(base, ("", ""))[1]
    name = name or f"{base if base == main else third_person(base)} {preposition}".strip()
    yield _statement(subject, verbs, rest, quote, scope, property_name=name, negative=negative)


def _verbs(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut the verbs (auxiliaries, adverbs, main verb) from the rest."""
    verbs: list[str] = []
    for number, word in enumerate(words):
        plain = _plain(word)
        known = plain in _BE or plain in _AUXILIARIES or plain in _NOT or plain in ADVERBS
        if known:
            verbs.append(plain)
        elif (lemma(plain) or _participle(plain)) and not _is_main(verbs):
            return [*verbs, plain], words[number + 1 :]
        elif verbs:
            return verbs, words[number:]
        else:
            return [plain], words[number + 1 :]
    return verbs, []


def _is_main(verbs: list[str]) -> bool:
    return any(verb in VERBS or lemma(verb) for verb in verbs)


def _participle(word: str) -> str:
    if word.endswith("ing") and len(word) > 5:
        stem = word[:-3]
        for candidate in (stem, stem + "e", stem[:-1]):
            if candidate in VERBS:
                return candidate
    return _PARTICIPLES.get(word, "")


_PARTICIPLES = {
    "written": "write",
    "chosen": "choose",
    "driven": "drive",
    "grown": "grow",
    "taken": "take",
    "spoken": "speak",
    "frozen": "freeze",
    "gone": "go",
    "become": "become",
    "run": "run",
    "given": "get",
    "flown": "fly",
    "worn": "wear",
    "begun": "begin",
    "organised": "organize",
}


def _state(
    subject: _Subject, verbs: list[str], rest: list[str], quote: str, scope: Scope
) -> Iterator[Statement]:
    """Read what something is or has."""
    plain = [_plain(word) for word in rest]
    if plain[0] in PASSING or (plain[0] in VAGUE):
        return
    if not any(v in _BE for v in verbs):
        pet = next((word for word in plain[:3] if word in PETS), "")
        name = "pet" if pet else "has"
        yield _statement(subject, verbs, rest, quote, scope, property_name=name)
        return
    if subject.prefix and subject.name != USER and subject.kind == "person":
        name = "role" if _has_role(plain) else "is"
    elif subject.prefix:
        name = subject.prefix
    elif _has_role(plain):
        name = "role"
        if subject.name != USER:
            scope.person = subject.name
            scope.people.add(subject.name)
    elif plain[0] in ("allergic", "vegan", "vegetarian", "married", "based", "responsible"):
        name = {"allergic": "allergy", "based": "home city", "married": "spouse"}.get(
            plain[0], "diet"
        )
        name = "role" if plain[0] == "responsible" else name
    elif plain[0] in ("on", "at", "every", "due", "in") or plain[0].endswith("day"):
        name = (
            "location" if plain[0] == "in" and not any(c.isdigit() for c in quote) else "schedule"
        )
    elif plain[0] == "from":
        name = "origin"
    elif plain[0] in ("called", "named"):
        name = "name"
    else:
        name = "is"
    yield _statement(subject, verbs, rest, quote, scope, property_name=name)


def _has_role(plain: list[str]) -> bool:
    return any(word in ROLES or word in KIN for word in plain[:6]) and plain[0] in (
        *("a", "an", "the", "our", "my", "now", "also", "head", "responsible", "still"),
    )


def _statement(
    subject: _Subject,
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
    category = category_of(value) if property_name in ("uses", "runs on", "is", "decision") else ""
    kind = "person" if property_name in _HUMAN and subject.kind == "thing" else subject.kind
    if kind == "person" and subject.name != USER:
        scope.person = subject.name
        scope.people.add(subject.name)
    name = category or property_name
    if subject.prefix and subject.name == USER and property_name != subject.prefix:
        name = subject.prefix
    shown = (
        subject.shown[:1].upper() + subject.shown[1:]
        if subject.shown[:4] == "the "
        else subject.shown
    )
    sentence = f"{shown} {_finite(verbs, subject)} {third(words, scope)}"
    return Statement(
        subject=subject.name,
        kind=kind,
        property=f"not {name}" if negative and name not in ("diet", "deploy day") else name,
        value=value,
        exclusive=bool(category) or name in _HUMAN or bool(subject.prefix) or name == "schedule",
        sentence=sentence,
        quote=quote,
    )


def _finite(verbs: list[str], subject: _Subject) -> str:
    """Return the verbs as the third person has them."""
    found: list[str] = []
    for number, verb in enumerate(verbs):
        inflected = verb
        if not subject.plural and not (found and found[0] in _AUXILIARIES | {"is", "was", "will"}):
            if verb in ("am", "are"):
                inflected = "is"
            elif verb == "were":
                inflected = "was"
            elif verb == "don't":
                inflected = "doesn't"
            elif verb in ("haven't",):
                inflected = "hasn't"
            elif verb in ("have", "do"):
                inflected = third_person(verb)
            elif verb in VERBS and not any(v in _NOT or v in _AUXILIARIES for v in verbs[:number]):
                inflected = third_person(verb) if VERBS[verb][0] != verb else verb
        found.append(inflected)
    return " ".join(found)


def third(text: str, scope: Scope | None = None) -> str:
    """Return words with first persons as "the user" and "the team"."""
    team = f"the {scope.project} team" if scope and scope.project else "the user's team"
    found = []
    for word in text.split():
        plain = word.strip(_EDGE).casefold()
        if plain in _FIRST:
            shown = _FIRST[plain].replace("the team", team)
            found.append(word.casefold().replace(plain, shown))
        else:
            found.append(word)
    return " ".join(found)


def value_of(text: str) -> str:
    """Return the value in what follows a verb: without side clauses, at most twelve words."""
    short = _LAST_WORDS.sub("", _TAIL.sub("", text))
    words = short.split()
    while len(words) > 1 and (_plain(words[0]) in PREPOSITIONS or _plain(words[0]) in _ARTICLES):
        words = words[1:]
    return " ".join(words[:_MOST_VALUE_WORDS]).strip(_EDGE + " ")


_ARTICLES = frozenset({"a", "an", "the", "our", "my"}) | ADVERBS


def category_of(value: str) -> str:
    """Return what sort of tool a value names: `database`; empty: none that is known."""
    plain = [_plain(word) for word in value.split()[:4]]
    for category, names in CATEGORIES.items():
        if any(word in names for word in plain):
            return category
    return ""


# Patterns that are not subject, verb, rest


def _special(text: str, quote: str, scope: Scope) -> list[Statement]:
    for pattern, read in _SPECIAL:
        found = pattern.match(text)
        if found:
            return [read(found, quote, scope)]
    return []


def _called(found: re.Match[str], quote: str, _scope: Scope) -> Statement:
    name = found["name"].strip(_EDGE)
    return Statement(
        subject=USER,
        kind="person",
        property="name",
        value=name,
        exclusive=True,
        sentence=f"The user is called {name}",
        quote=quote,
    )


def _switched(found: re.Match[str], quote: str, scope: Scope) -> Statement:
    subject = _pronoun("we" if found["who"].casefold() == "we" else "i", scope) or _team(scope)
    new, old = value_of(found["new"]), value_of(found["old"])
    name = category_of(new) or category_of(old) or found["what"] or "uses"
    shown = subject.shown[:1].upper() + subject.shown[1:]
    about = f" the {found['what']}" if found["what"] else ""
    return Statement(
        subject=subject.name,
        kind=subject.kind,
        property=name.strip(),
        value=new,
        exclusive=True,
        sentence=f"{shown} {_finite(_helpers(found), subject)}{about} from {third(old, scope)} to "
        f"{third(found['new'], scope)}",
        quote=quote,
    )


def _helpers(found: re.Match[str]) -> list[str]:
    """Return the verbs of a switch: "are switching" needs its "are"."""
    verb = found["verb"].casefold()
    if verb.endswith("ing"):
        return ["is", verb]
    return ["will", verb] if verb in VERBS else [verb]


def _renamed(found: re.Match[str], quote: str, scope: Scope) -> Statement:
    old, new = found["old"].strip(_EDGE), value_of(found["new"])
    old = re.sub(r"^(?:the|our|my) ", "", old, flags=re.IGNORECASE)
    known = scope.project if old.casefold() in ("project", "app", "it", "product") else old
    scope.thing = new
    if scope.project == known:
        scope.project = new
    return Statement(
        subject=known or old,
        kind="project",
        property="name",
        value=new,
        exclusive=True,
        sentence=f"{known or old} was renamed to {new}",
        quote=quote,
    )


def _set(found: re.Match[str], quote: str, scope: Scope) -> Statement:
    """Read "we moved the release to 12 May": a new value of an attribute."""
    subject = _team(scope)
    what, new = found["what"].casefold(), value_of(found["new"])
    shown = subject.shown[:1].upper() + subject.shown[1:]
    return Statement(
        subject=subject.name,
        kind=subject.kind,
        property=what,
        value=new,
        exclusive=True,
        sentence=f"{shown} {found['verb'].casefold()} the {what} to {third(found['new'], scope)}",
        quote=quote,
    )


_SPECIAL = (
    (re.compile(r"(?i:(?:please )?(?:just )?call me )(?P<name>[^\s,.]+(?: [A-Z]\w*)?)"), _called),
    (re.compile(r"(?i:i go by )(?P<name>[^\s,.]+)"), _called),
    (re.compile(r"(?i:my name(?: is|'s) )(?P<name>[^\s,.]+(?: [A-Z]\w*){0,2})"), _called),
    (
        re.compile(
            r"(?i:(?P<who>we|i)(?:'ve| have| are| am| will)?"
            r"(?: just| recently| finally| now| going to| about to| officially| planning to)* "
            r"(?P<verb>switched|migrated|moved|changed|went|switching|migrating|moving|changing"
            r"|switch|migrate|move|change)(?: over)?(?: (?:our|the|my)"
            r" (?P<what>[\w -]{2,30}?))?) from (?P<old>.{1,60}?) to (?P<new>.{1,80})"
        ),
        _switched,
    ),
    (
        re.compile(
            r"(?i:(?:we|they|i)(?: have| had to| are)?(?: just| recently| finally| now)* "
            r"(?P<verb>moved|pushed|postponed|changed|shifted|rescheduled|delayed|set|bumped|raised"
            r"|lowered|cut|extended|increased|reduced|updated|brought forward)(?: back)? "
            r"(?:the|our|my)) (?P<what>[\w -]{3,40}?)(?: from .{1,40}?)? (?:to|until|for) (?P<new>.{1,60})"
        ),
        _set,
    ),
    (
        re.compile(
            r"(?i:we(?:'ve| have)?(?: just| recently| finally)* renamed )(?P<old>.{1,50}?) "
            r"(?:to|as|into) (?P<new>.{1,60})"
        ),
        _renamed,
    ),
    (
        re.compile(
            r"(?P<old>.{1,50}?) (?i:is now called|was renamed(?: to)?|has been renamed(?: to)?"
            r"|got renamed(?: to)?|is now named) (?P<new>.{1,60})"
        ),
        _renamed,
    ),
)
