"""Whether the value of an assignment is a secret, or a word, a type, or code. Pure."""

from __future__ import annotations

import re

from core.memory.redact.words import words

_TRAILING = ".,;:!?)]}>*_»”"
_REFERENCE = re.compile(
    # a variable, a placeholder, a call, an attribute, a file
    r"[$%{<(\[].*|.*[({\[].*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)++|[*xX•.…:_-]{3,}|/.*|\.{1,2}/.*|https?:.*",
    re.DOTALL,
)
_CODE_NAME = re.compile(r"[A-Za-z_]*_[A-Za-z_]*")
_WORDS = re.compile(r"[^\W\d_]+(?:[-/'’][^\W\d_]+)*")
_LETTER = re.compile(r"[^\W\d_]")
_PLAIN = words(
    """required optional string str text bytes none null nil true false undefined hidden invalid
    incorrect wrong missing reset forgotten forgot changed protected empty blank unknown secret
    password passwort token value type field object number integer int bool boolean any char varchar
    input prompt example placeholder changeme default disabled enabled expired valid correct needed
    secretstr optionalstr not the your you set here this that same too very only used stored hashed
    encrypted enter new old short long weak strong generated always never also still now case
    necessary mandatory redacted securestring"""
)
"""Words after `password:` that are not a password."""


def is_password(match: re.Match[str]) -> str | None:
    """Return the password in a match of `ASSIGNMENT`; None: there is none."""
    value, quoted = _value(match)
    if len(value) < 4 or _REFERENCE.fullmatch(value) or value.lower() in _PLAIN:
        return None
    if not _is_word_start(match):
        return None
    spoken = match["sign"][:1] in " \t" and not any(sign in match["sign"] for sign in ":=：")
    if _WORDS.fullmatch(value):
        # Letters only: a password where it stands alone, a word within a sentence.
        return value if (quoted or (not spoken and _is_alone(match))) and len(value) >= 6 else None
    if _CODE_NAME.fullmatch(value) and not quoted:
        return None
    return value


def is_key(match: re.Match[str]) -> str | None:
    """Return the key or token in a match of `ASSIGNMENT`; None: there is none."""
    value, _ = _value(match)
    if len(value) < 12 or _REFERENCE.fullmatch(value) or not _is_word_start(match):
        return None
    digits = sum(character.isdigit() for character in value)
    if not digits or not _LETTER.search(value):
        return None
    # `token: user-profile-2024` is made of words, a key is not.
    longest = max(len(part) for part in re.split(r"[-_.:/ ]", value))
    return value if longest >= 10 and (digits >= 3 or longest >= 20) else None


def is_vendor_key(value: str) -> bool:
    """Return whether what begins like a vendor's key is one: `sk-learn-contrib-…` is a name."""
    if not value.startswith("sk-") or value.startswith("sk-ant-") or len(value) >= 60:
        return True
    parts = re.split(r"[-_]", value)
    return any(len(part) >= 16 and re.search(r"\d", part) is not None for part in parts)


def _value(match: re.Match[str]) -> tuple[str, bool]:
    """Return the value without what ends the sentence, and whether it is in quotation marks."""
    value: str = match["value"]
    quoted = bool(match["quote"]) and match["end"] == match["quote"]
    return (value, True) if quoted else (value.rstrip(_TRAILING), False)


def _is_alone(match: re.Match[str]) -> bool:
    """Return whether nothing but punctuation follows the value on its line."""
    text, end = match.string, match.end()
    following = text[end : end + 3].lstrip(" \t")
    return (end >= len(text) or following[:1] in ("", "\n", "\r")) and match["value"][-1] != ","


def _is_word_start(match: re.Match[str]) -> bool:
    """Return whether the name begins at a word, or at a part of a name such as `DB_PASSWORD`."""
    before = match.string[max(0, match.start() - 1) : match.start()]
    if not before or not before.isalpha() or not before.isascii():
        return True
    return before.islower() and match["word"][0].isupper()  # dbPassword
