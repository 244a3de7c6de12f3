"""Names of articles: how they are compared, which ones are allowed, and their file names. Pure."""

from __future__ import annotations

import re
import unicodedata

from core.errors import BadRequest

SUFFIX = ".md"
REFERENCE = "Reference/"
"""What the name of a page in `Reference/` begins with."""
LONGEST_NAME = 251
"""Bytes of a name in UTF-8 at most: with `.md` that is 254, and file systems allow 255."""
_LONGEST_STEM = 200
"""Bytes of a new article's file name, so that tools can add something to it."""
# Windows refuses these; Obsidian and wikilinks give `#^[]|` a meaning.
_REFUSED = re.compile(r'[<>:"/\\|?*#^\[\]\x00-\x1f\x7f-\x9f]')
_DEVICES = r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9¹²³])(?:\..*)?"
_RESERVED = re.compile(_DEVICES, re.IGNORECASE | re.DOTALL)
"""File names that mean a device on Windows, with any suffix."""


def name_key(name: str) -> str:
    """Return the key under which two spellings of a name are one article.

    Without case, in NFC, runs of whitespace and underscores as one space (as MediaWiki compares
    titles).
    """
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
    return " ".join(folded.replace("_", " ").split())


def file_name(title: str) -> str:
    """Return the stem of a new article's file.

    In NFC, at most 200 bytes, without what file systems, git and Obsidian refuse: such characters
    become a space (`C/C++` is `C C++`), `C#` becomes `C sharp`. A title whose stem differs from
    it is found by the heading in the file.

    Raises:
        BadRequest: nothing is left of the title (field `name`).
    """
    text = re.sub(r"(?<=\w)#(?!\w)", " sharp", _one_line(title))
    text = _REFUSED.sub(" ", _visible(text))
    stem = _cut(" ".join(text.split()).strip(". "), _LONGEST_STEM).rstrip(". ")
    if not any(char.isalnum() or unicodedata.category(char) == "So" for char in stem):
        message = f"No file name can be made of the title {_shown(title)}."
        raise BadRequest(message, field="name")
    return f"The {stem}" if _RESERVED.fullmatch(stem) else stem


def checked_name(name: str) -> str:
    """Return the name that a caller sent, in NFC, without whitespace around it and `.md` after it.

    `Reference/X` names a page of ours; no other name may hold a slash.

    Raises:
        BadRequest: the name is empty or too long, or has something that no name can have
            (field `name`).
    """
    if "\x00" in name:
        raise BadRequest("A name cannot contain a NUL character.", field="name")
    text = unicodedata.normalize("NFC", name.strip().removesuffix(SUFFIX).strip())
    reason = _fault(text.removeprefix(REFERENCE), size=_size(text))
    if reason:
        raise BadRequest(f"{_shown(name)} is not a valid article name: {reason}.", field="name")
    return text


def is_name(stem: str) -> bool:
    """Return whether a file's name without `.md` can be asked for."""
    return _fault(stem, size=_size(stem)) is None


def _fault(stem: str, *, size: int | None) -> str | None:
    """Return why a name, without `Reference/`, cannot be one; None: it can."""
    faults = (
        (not stem, "it is empty"),
        (size is None, "it is not valid Unicode"),
        (size is not None and size > LONGEST_NAME, f"it has more than {LONGEST_NAME} bytes"),
        ("/" in stem or "\\" in stem, "it contains a path separator"),
        (stem.startswith("."), "it begins with a dot"),
        (any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in stem),
         "it contains a line break or another control character"),
    )  # fmt: skip
    return next((reason for wrong, reason in faults if wrong), None)


def _size(text: str) -> int | None:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _one_line(title: str) -> str:
    return " ".join(unicodedata.normalize("NFC", title).split())


def _visible(text: str) -> str:
    """Drop what changes how a name looks but not what it says, and what is not a character.

    Zero-width joiners stay: scripts of India, Persian and emoji need them.
    """
    return "".join(char for char in text if char in "\u200c\u200d" or not _is_invisible(char))


def _is_invisible(char: str) -> bool:
    code = ord(char)
    no_character = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return no_character or unicodedata.category(char) in ("Cf", "Cs")


def _cut(text: str, limit: int) -> str:
    """Return the beginning of a text with at most so many bytes, without half characters."""
    raw = text.encode()
    return text if len(raw) <= limit else raw[:limit].decode(errors="ignore").rstrip()


def _shown(name: str) -> str:
    """Return a name for a message: one line, and not longer than a line."""
    text = name.encode(errors="replace").decode()
    return repr(text if len(text) <= 80 else f"{text[:79]}…")
