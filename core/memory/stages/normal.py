"""One normal form for what facts are about, so that facts on the same thing can meet. Pure."""

from __future__ import annotations

import re
import unicodedata

from core.memory.citation import collapsed
from core.memory.names import name_key

USER = "User"
"""The subject of facts about the user."""
_USER_NAMES = frozenset(
    {"user", "the user", "i", "me", "myself", "we", "us", "der nutzer", "die nutzerin", "ich"}
    | {"用户", "我", "ユーザー", "私", "僕", "俺"}
)
_DETERMINERS = re.compile(
    r"(?:the|my|our|a|an|this|that|der|die|das|mein|meine|unser|unsere)\s+", re.IGNORECASE
)
_MARKS = " \t\"'“”„‘’«»`*_.,;:!?()<>-—–。，、！？：；「」『』"
_NOT_ALLOWED = re.compile(r"[\[\]|#·\x00-\x1f\x7f]")
LONGEST_SUBJECT = 80
LONGEST_PROPERTY = 40

# Canonical property: other words for it. What is left out here stays as it was said.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "name": ("full name", "nickname", "preferred name", "called", "first name"),
    "home city": (
        *("city", "residence", "place of residence", "city of residence", "lives in", "home town"),
        *("current city", "home location", "living place", "wohnort", "住所", "居住地"),
    ),
    "employer": ("company", "workplace", "works at", "works for", "job at", "organization"),
    "role": ("job", "job title", "position", "occupation", "profession"),
    "deploy day": ("deployment day", "release day", "deploy schedule", "deployment schedule"),
    "deadline": ("due date", "due", "target date", "launch date", "release date"),
    "birthday": ("birth date", "date of birth", "birthdate"),
    "allergy": ("allergies", "allergic to"),
    "diet": ("dietary preference", "eating habits"),
    "pet": ("pets",),
    "language": ("programming language", "implementation language", "written in"),
    "database": ("db", "data store", "datastore"),
    "lead": ("leader", "team lead", "led by", "project lead", "owner", "maintainer"),
    "favorite": ("favourite",),
}
_CANONICAL = {name_key(word): name for name, words in _SYNONYMS.items() for word in words}
_ONE_AT_A_TIME = frozenset(
    {"name", "home city", "deploy day", "deadline", "birthday", "status", "version"}
)


def normal_subject(text: str) -> str:
    """Return the normal form of a subject; empty: it cannot be one.

    Whitespace collapsed, without determiners and quotation marks around it; the user is `USER`.
    """
    plain = _plain(text)
    if name_key(plain) in _USER_NAMES:
        return USER
    found = _DETERMINERS.match(plain)
    plain = plain[found.end() :] if found else plain
    if name_key(plain) in _USER_NAMES:
        return USER
    return "" if len(plain) > LONGEST_SUBJECT else plain


def normal_property(text: str) -> str:
    """Return the normal form of a property, in lower case; empty: it cannot be one."""
    plain = name_key(_plain(text))
    found = _DETERMINERS.match(plain)
    plain = plain[found.end() :] if found else plain
    plain = _CANONICAL.get(plain, plain)
    return "" if len(plain) > LONGEST_PROPERTY else plain


def is_exclusive(property_name: str, *, proposed: bool) -> bool:
    """Return whether a subject has one value of a property at a time.

    Args:
        property_name: in normal form.
        proposed: what the model says, which decides where we do not know.
    """
    return proposed or property_name in _ONE_AT_A_TIME


def _plain(text: str) -> str:
    shown = unicodedata.normalize("NFC", text.replace("_", " "))
    return collapsed(_NOT_ALLOWED.sub(" ", shown)).strip(_MARKS)
