"""Where sentences end, in the scripts that mark it. Pure and linear.

Latin, Greek, Cyrillic and others with `.`, `!`, `?`: at a stop before whitespace, unless the stop
belongs to an abbreviation, an initial, a date or a number. Chinese and Japanese: at the wide stop.
Arabic, Devanagari and other scripts with stops of their own: before whitespace. Thai and Lao mark
no end, so that a paragraph is one sentence there. A footnote marker after a stop belongs to the
sentence before it, and always ends it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.memory import links

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDE_STOPS = "。！？｡"
"""Stops after which no space stands."""
STOPS = ".!?…．؟۔।॥።፧։။។" + WIDE_STOPS
_STOP = re.compile(f"[{re.escape(STOPS)}]+")
# What may close a quotation or emphasis after the stop, then footnote markers.
_CLOSING = "\"'”’»)]}」』】）〉》*_~"
_CLOSERS = re.compile(f"[{re.escape(_CLOSING)}]*")
_MARKERS = re.compile(r"(?:[ \t]{0,3}\[\^[^\]\[\s^]{1,100}\])*")
_BLANK_LINE = re.compile(r"\n[ \t\r>]*\n")
_PROTECTED = re.compile(
    r"\[\[[^\[\]\n]{1,2000}\]\]"
    r"|\[\^[^\]\[\s^]{1,100}\]"
    r"|\[[^\[\]\n]{1,1000}\]\([^()\s]{1,2000}\)"
    r"|<[a-z]{2,12}:[^<>\s]{1,2000}>"
)
_WORD_BEFORE = re.compile(r"[^\W_]+(?:[.'’][^\W_]+)*$")
_PARTICLES = frozenset("とっはがのをにもでや、，,")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER_LAST = _words(
    """dr mr mrs ms mx prof mme mlle messrs vs e.g i.e z.b d.h u.a o.ä bzw ca cf approx resp vgl
    sog zzgl inkl exkl ggf evtl p.ex т.е т.к ул"""
)
"""Abbreviations that something follows, lower case, without the last stop."""
_TITLES = _words(
    "st hr fr sr sra srta dott sig rev hon gen col lt sgt capt cmdr maj gov sen rep pres"
)
"""The same, but only with a capital."""
_MAY_BE_LAST = _words(
    """etc usw inc ltd corp co bros jr a.m p.m u.s u.k u.n e.u d.c ph.d b.sc m.sc al dept univ est
    ave blvd rd gmbh ag s.a s.l т.д т.п др пр г"""
)
"""Abbreviations that end a sentence unless a small letter follows."""
_BEFORE_NUMBER = _words(
    """no nos nr nrs fig figs p pp ch chap sec vol art abs eq ver v jan feb mar mär apr jun jul aug
    sep sept oct okt nov dec dez"""
)
"""Abbreviations only before a number: `No. 5`, but `No. I do not.`"""
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")
_BEFORE_ORDINAL = _words(
    "der die das den dem des am im zum zur vom beim ein eine einen einem einer"
)
_STARTERS = _words(
    "It He She They We The This That Then There In On At But And So An My Our His Her"
)
_MONTHS = _words(
    """januar jänner februar märz april mai juni juli august september oktober november dezember
    jan feb mär apr jun jul aug sep sept okt nov dez"""
)
"""Months, which follow a day with a stop: `3. Mai`."""


def spans(text: str, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a text stand, in order, as offsets without outer whitespace.

    A blank line ends a sentence too. Text without any stop is one sentence.
    """
    end = len(text) if stop is None else stop
    begin = start
    for gap in _BLANK_LINE.finditer(text, start, end):
        yield from _paragraph(text, begin, gap.start())
        begin = gap.end()
    yield from _paragraph(text, begin, end)


def split(text: str) -> tuple[str, ...]:
    """Return the sentences of a text as they stand, footnote markers included."""
    return tuple(text[start:stop] for start, stop in spans(text))


def split_lines(text: str) -> tuple[str, ...]:
    """Return the sentences of a text in which every line ends one."""
    return tuple(part for line in text.split("\n") for part in split(line))


def plain(text: str) -> str:
    """Return a sentence as it is compared and shown.

    Without footnote markers and quote marks of continued lines, whitespace collapsed; links and
    emphasis stay as written.
    """
    bare = links.MARKER.sub("", text)
    if "\n" in bare:
        bare = "\n".join(line.lstrip(" \t>") for line in bare.split("\n"))
    return " ".join(bare.split())


def stop_offset(text: str) -> int:
    """Return the offset of the final stop of a sentence, or of its end where there is none.

    Footnote markers, quotation marks and emphasis after the stop are looked past; of several stops
    it is the first: `Really?!`.
    """
    end = _trimmed(text, len(text))
    kept = end
    while end and text[end - 1] in _CLOSING:
        end -= 1
    if not end or text[end - 1] not in STOPS:
        return kept
    while end and text[end - 1] in STOPS:
        end -= 1
    return end


def _trimmed(text: str, end: int) -> int:
    """Return where a text ends without whitespace and footnote markers."""
    markers = list(links.MARKER.finditer(text, 0, end))
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        if not markers or markers[-1].end() != end:
            return end
        end = markers.pop().start()


def _paragraph(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    begin = start
    stops = _STOP.finditer(text, start, stop)
    for match in links.outside(stops, protected(text, start, stop)):
        if match.start() < begin:
            continue
        end = _end(text, match, begin, stop)
        if end is not None:
            yield from _stripped(text, begin, end)
            begin = end
    yield from _stripped(text, begin, stop)


def protected(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Return code and links, in which no sentence ends, in order."""
    code = links.code_spans(text, start, stop)
    found = [m.span() for m in links.outside(_PROTECTED.finditer(text, start, stop), code)]
    return sorted(code + found)


def _stripped(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    while start < stop and text[start].isspace():
        start += 1
    while start < stop and text[stop - 1].isspace():
        stop -= 1
    if start < stop:
        yield start, stop


def _end(text: str, match: re.Match[str], begin: int, stop: int) -> int | None:
    """Return where the sentence with this stop ends; None: it continues."""
    closed = _ends_at(_CLOSERS, text, match.end(), stop)
    end = _ends_at(_MARKERS, text, closed, stop)
    if end > closed or end == stop:
        return end
    if match[0][-1] in WIDE_STOPS:
        quoted = closed > match.end()
        return None if quoted and text[end] in _PARTICLES else end
    if not text[end].isspace():
        # Chinese and Japanese with stops of ASCII.
        return end if match[0][-1] in "!?" and text[end] >= "\u3040" else None
    following = _following(text, end, stop)
    return end if _is_last(text, match, begin, closed, following) else None


def _ends_at(pattern: re.Pattern[str], text: str, start: int, stop: int) -> int:
    match = pattern.match(text, start, stop)
    return match.end() if match else start


def _following(text: str, start: int, stop: int) -> str:
    """Return the next words of a text, to see what follows a stop."""
    return text[start : min(stop, start + 40)].lstrip().lstrip("\"'“‘«([{*_")


def _is_last(text: str, match: re.Match[str], begin: int, closed: int, following: str) -> bool:
    """Return whether a stop before whitespace ends its sentence."""
    lower = following[:1].islower()
    if match[0] != ".":
        # "What?" he said; and so on ... as before.
        return not (lower and (closed > match.end() or match[0][0] in ".…"))
    if closed > match.end():
        return not lower
    before = text[max(begin, match.start() - 40) : match.start()]
    word = _last_word(before)
    if word.isdecimal():
        return _ends_after_number(before, word, following, lower=lower)
    return _ends_after_word(word, following, lower=lower)


def _last_word(before: str) -> str:
    found = _WORD_BEFORE.search(before)
    return found[0] if found else ""


def _ends_after_number(before: str, number: str, following: str, *, lower: bool) -> bool:
    """Return whether a sentence ends at the stop after a number; a day or an ordinal continues."""
    next_word = re.split(r"\W", following, maxsplit=1)[0].casefold()
    if lower or (len(number) <= 2 and (next_word in _MONTHS or next_word[:1].isdecimal())):
        return False
    words = before[: -len(number)].split()
    # `1. First item`, and in German `der 2. Versuch`.
    return bool(words) and not (len(number) <= 2 and words[-1].casefold() in _BEFORE_ORDINAL)


def _ends_after_word(word: str, following: str, *, lower: bool) -> bool:
    """Return whether a sentence ends at the stop after a word; an abbreviation continues."""
    key = word.casefold()
    if key in _BEFORE_NUMBER and following[:1].isdecimal():
        return False
    if key in _NEVER_LAST or (word[:1].isupper() and key in _TITLES):
        return False
    if key in _MAY_BE_LAST:
        return not lower
    if re.split(r"\W", following, maxsplit=1)[0] in _STARTERS:
        return True  # `We took plan B. It works.`
    is_initial = word.isupper() and _INITIALS.fullmatch(word)
    if is_initial or (len(word) == 1 and re.match(r"\w\.", following)):
        return False  # `J. R. R. Tolkien`, `z. B.`
    return not (lower and "." in word)
