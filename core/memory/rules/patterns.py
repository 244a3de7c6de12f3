"""Statements that are not read as subject, verb and rest: one pattern each. English."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.memory.rules.statement import (
    EDGE,
    Scope,
    Statement,
    category_of,
    is_person_noun,
    third,
    value_of,
)
from core.memory.rules.subjects import pronoun, team
from core.memory.rules.verbs import finite
from core.memory.rules.words import ROLES, VERBS
from core.memory.stages.normal import USER

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def relations(text: str, quote: str, scope: Scope) -> Iterator[Statement]:
    """Yield who somebody is: "my sister Ana", "Jonas, our designer,", "hired Pavel as a cook"."""
    for pattern in (_BESIDE_NAME, _AFTER_NAME, _HIRED):
        for found in pattern.finditer(text):
            what, name = " ".join(found["what"].split()), found["name"]
            last = what.split()[-1].casefold()
            if not is_person_noun(last):
                continue
            scope.meet(name, noun=last)
            whose = third(f"{found['whose'] or 'a'} {what}", scope)
            yield Statement(
                subject=scope.whole(name),
                kind="person",
                property="role" if last in ROLES else "relation",
                value=what,
                exclusive=last in ROLES,
                sentence=f"{name} is {whose}",
                quote=quote,
            )


def special(text: str, quote: str, scope: Scope) -> list[Statement]:
    """Return the statement of the first pattern that fits; empty: none does."""
    for pattern, read in _SPECIAL:
        found = pattern.match(text)
        if found:
            return [read(found, quote, scope)]
    return []


def _called(found: re.Match[str], quote: str, _scope: Scope) -> Statement:
    name = found["name"].strip(EDGE)
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
    subject = pronoun("we" if found["who"].casefold() == "we" else "i", scope) or team(scope)
    new, old = value_of(found["new"]), value_of(found["old"])
    name = category_of(new) or category_of(old) or found["what"] or "uses"
    shown = subject.shown[:1].upper() + subject.shown[1:]
    about = f" the {found['what']}" if found["what"] else ""
    did = finite(_helpers(found))
    return Statement(
        subject=subject.name,
        kind=subject.kind,
        property=name.strip(),
        value=new,
        exclusive=True,
        sentence=f"{shown} {did}{about} from {third(old, scope)} to {third(found['new'], scope)}",
        quote=quote,
    )


def _helpers(found: re.Match[str]) -> list[str]:
    """Return the verbs of a switch: "are switching" needs its "are"."""
    verb = found["verb"].casefold()
    if verb.endswith("ing"):
        return ["is", verb]
    return ["will", verb] if verb in VERBS else [verb]


def _renamed(found: re.Match[str], quote: str, scope: Scope) -> Statement:
    old, new = found["old"].strip(EDGE), value_of(found["new"])
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


def _labelled(found: re.Match[str], quote: str, scope: Scope) -> Statement:
    """Read "Annual meeting: 12 March in the library"."""
    subject = team(scope)
    value, what = value_of(found["value"]), found["what"]
    name = scope.project or "the user"
    return Statement(
        subject=subject.name,
        kind=subject.kind,
        property=what.casefold(),
        value=value,
        exclusive=True,
        sentence=f"{what} of {name}: {third(found['value'], scope)}",
        quote=quote,
    )


def _set(found: re.Match[str], quote: str, scope: Scope) -> Statement:
    """Read "we moved the release to 12 May": a new value of an attribute."""
    subject = team(scope)
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
    (
        re.compile(
            r"(?P<what>[A-Z][\w-]{1,20}(?: [\w-]{1,20}){0,3}): "
            r"(?P<value>(?=.{0,80}[\dA-Z]).{2,80})$"
        ),
        _labelled,
    ),
    (
        re.compile(
            r"(?i:(?:please )?(?:just )?(?:you can )?call me )(?P<name>[^\s,.]+(?: [A-Z]\w*)?)"
        ),
        _called,
    ),
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
            r"(?:the|our|my)) (?P<what>[\w -]{3,40}?)(?: from .{1,40}?)? "
            r"(?:to|until|for) (?P<new>.{1,60})"
        ),
        _set,
    ),
    (
        re.compile(
            r"(?i:we(?: have| are| will)?(?: just| recently| finally)* renam(?:ed|ing|e) )"
            r"(?P<old>.{1,50}?) (?:to|as|into) (?P<new>.{1,60})"
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
