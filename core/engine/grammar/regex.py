r"""Regular expressions as trees: what JavaScript and Python agree on. Pure, and linear in length.

Where the two differ, the smaller set is used (`\d` matches ASCII digits only, `\D` excludes the
digits of every script), so that what is generated matches in either. What a grammar cannot express
(lookaround, back references, word boundaries) is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from core.engine.grammar import codepoints as cp
from core.engine.grammar.screen import NotPossible, check_long

_DEEPEST = 100
_MOST_REPEATS = 100_000
_MOST_RANGES = 60_000
_PLAIN_PARTS = 300
_PLAIN_REPEATS = 12


@dataclass(frozen=True, kw_only=True)
class Chars:
    """One character of a set."""

    ranges: cp.Ranges
    """The set; empty: it matches nothing."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One after the other; none: the empty text."""

    parts: tuple[Node, ...]
    """In order."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Any of some."""

    options: tuple[Node, ...]
    """At least one."""


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """The same several times."""

    node: Node
    """What repeats."""
    least: int
    """How often at least."""
    most: int | None
    """How often at most; None: without a limit."""


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """The beginning or the end of the text."""

    sign: str
    """`^` or `$`."""


Node: TypeAlias = Chars | Run | Choice | Repeat | Anchor

_ANYTHING = Repeat(node=Chars(ranges=cp.ANY), least=0, most=None)


class BadSyntax(NotPossible):
    """A pattern that is not a regular expression."""


def parse(pattern: str) -> Node:
    """Return the tree of a pattern.

    Raises:
        BadSyntax: it is not a regular expression.
        NotPossible: it has something that a grammar cannot express.
        TooLong: it is long and is not a regular expression.
    """
    try:
        return _Parser(pattern).parse()
    except BadSyntax as problem:
        check_long(pattern, problem)
        raise


def full_match(pattern: str) -> Node:
    """Return the tree of what the whole text must match.

    Raises:
        NotPossible: as `parse`, or an anchor stands within it.
    """
    return _choice([body for body, _starts, _ends in _alternatives(parse(pattern))])


def search(pattern: str) -> Node:
    """Return the tree of the texts in which a pattern matches somewhere, as JSON Schema means it.

    Raises:
        NotPossible: as `parse`, or an anchor stands within it.
    """
    return _choice(
        [
            Run(parts=(*(() if starts else (_ANYTHING,)), body, *(() if ends else (_ANYTHING,))))
            for body, starts, ends in _alternatives(parse(pattern))
        ]
    )


def literal(text: str) -> Node:
    """Return the tree of exactly this text."""
    return Run(parts=tuple(Chars(ranges=cp.one_of(each)) for each in text))


def is_plain(node: Node) -> bool:
    """Return whether a tree is small and repeats nothing that repeats: quick to match."""
    parts, repeats = _count(node)
    return parts <= _PLAIN_PARTS and repeats <= _PLAIN_REPEATS and not _repeats_within(node)


def _count(node: Node) -> tuple[int, int]:
    parts, repeats = 1, int(isinstance(node, Repeat))
    for child in children(node):
        more, others = _count(child)
        parts, repeats = parts + more, repeats + others
    return parts, repeats


def _repeats_within(node: Node, *, inside: bool = False) -> bool:
    if inside and isinstance(node, Repeat | Choice):
        return True
    inside = inside or isinstance(node, Repeat)
    return any(_repeats_within(child, inside=inside) for child in children(node))


def children(node: Node) -> tuple[Node, ...]:
    """Return what a node is made of."""
    if isinstance(node, Run):
        return node.parts
    if isinstance(node, Choice):
        return node.options
    return (node.node,) if isinstance(node, Repeat) else ()


def _choice(options: list[Node]) -> Node:
    return options[0] if len(options) == 1 else Choice(options=tuple(options))


def _alternatives(node: Node) -> list[tuple[Node, bool, bool]]:
    """Return each alternative without its anchors, and whether it is anchored at either end."""
    if isinstance(node, Choice):
        return [one for option in node.options for one in _alternatives(option)]
    parts = node.parts if isinstance(node, Run) else (node,)
    if len(parts) == 1 and isinstance(parts[0], Run | Choice):
        return _alternatives(parts[0])
    start, end = 0, len(parts)
    while start < end and parts[start] == Anchor(sign="^"):
        start += 1
    while end > start and parts[end - 1] == Anchor(sign="$"):
        end -= 1
    starts, ends = start > 0, end < len(parts)
    inner = parts[start:end]
    if len(inner) == 1 and isinstance(inner[0], Run | Choice) and not (starts and ends):
        return [(one, a or starts, b or ends) for one, a, b in _alternatives(inner[0])]
    if any(map(_has_anchor, inner)):
        raise NotPossible("the regex has an anchor that is not at an end of it")
    return [(Run(parts=inner), starts, ends)]


def _has_anchor(node: Node) -> bool:
    return isinstance(node, Anchor) or any(map(_has_anchor, children(node)))


# Members of a class: what is surely in it, and what may be in it under some dialect.
_Pair: TypeAlias = tuple[cp.Ranges, cp.Ranges]
_COUNT = re.compile(r"\{(\d{0,9})(,?)(\d{0,9})\}")
_NAME = re.compile(r"\?P?<([A-Za-z_]\w{0,60})>", re.ASCII)
_HEX = {"x": re.compile(r"[0-9A-Fa-f]{2}"), "u": re.compile(r"[0-9A-Fa-f]{4}")}
_BRACED = re.compile(r"\{([0-9A-Fa-f]{1,6})\}")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}


class _Parser:
    """Reads one pattern from left to right, each character once."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._ranges = 0

    def parse(self) -> Node:
        node = self._options()
        if self._at < len(self._text):
            raise self._wrong("a parenthesis closes nothing")
        return node

    def _wrong(self, what: str) -> BadSyntax:
        return BadSyntax(f"the regex is malformed at character {self._at + 1}: {what}")

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _options(self) -> Node:
        options = [self._run()]
        while self._skip("|"):
            options.append(self._run())
        return _choice(options)

    def _run(self) -> Node:
        parts: list[Node] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._quantified(self._atom()))
        return parts[0] if len(parts) == 1 else Run(parts=tuple(parts))

    def _atom(self) -> Node:
        sign = self._next()
        if sign == "(":
            return self._group()
        if sign == "[":
            return Chars(ranges=self._weighed(self._class()))
        if sign == "\\":
            self._at += 1
            return Chars(ranges=self._weighed(self._escape(within=False)[0]))
        if sign in "*+?" or (sign == "{" and self._count_ahead()):
            raise self._wrong("nothing to repeat")
        self._at += 1
        if sign in "^$":
            return Anchor(sign=sign)
        return Chars(ranges=cp.complement(cp.LINE_ENDS) if sign == "." else cp.one_of(sign))

    def _weighed(self, ranges: cp.Ranges) -> cp.Ranges:
        r"""Refuse a pattern with many large sets: `\W` has hundreds of ranges."""
        self._ranges += len(ranges)
        if self._ranges > _MOST_RANGES:
            raise NotPossible("the regex has too many character classes")
        return ranges

    def _group(self) -> Node:
        self._at += 1
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong("groups are nested too deeply")
        if self._next() == "?" and not self._skip("?:"):
            name = _NAME.match(self._text, self._at)
            if not name:
                raise NotPossible("the regex looks ahead or behind, or has flags")
            self._at = name.end()
        node = self._options()
        if not self._skip(")"):
            raise self._wrong("a group is not closed")
        self._depth -= 1
        return node

    def _count_ahead(self) -> re.Match[str] | None:
        found = _COUNT.match(self._text, self._at)
        return found if found and (found[1] or (found[2] and found[3])) else None

    def _quantified(self, node: Node) -> Node:
        limits = self._limits()
        if limits is None:
            return node
        if isinstance(node, Anchor):
            raise self._wrong("an anchor cannot repeat")
        if self._next() == "+":
            raise NotPossible("the regex has a possessive quantifier")
        self._skip("?")
        if self._next() in ("*", "?", "+") or self._count_ahead():
            raise self._wrong("nothing to repeat")
        return Repeat(node=node, least=limits[0], most=limits[1])

    def _limits(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._next() in simple:
            self._at += 1
            return simple[self._text[self._at - 1]]
        count = self._count_ahead()
        if not count:
            return None
        least = int(count[1] or 0)
        most = (int(count[3]) if count[3] else None) if count[2] else least
        if most is not None and most < least:
            raise self._wrong("a repetition ends before it begins")
        if max(least, most or 0) > _MOST_REPEATS:
            raise NotPossible("the regex repeats too often")
        self._at = count.end()
        return least, most

    def _class(self) -> cp.Ranges:
        self._at += 1
        negated = self._skip("^")
        members: list[_Pair] = []
        first = True
        while first or self._next() != "]":
            if not self._next():
                raise self._wrong("a character class is not closed")
            members.append(self._member())
            first = False
        self._at += 1
        if negated:
            return cp.complement(cp.union([may_be for _, may_be in members]))
        return cp.intersection(cp.union([sure for sure, _ in members]), cp.ANY)

    def _member(self) -> _Pair:
        """Return a character, an escape or a range."""
        first = self._single()
        dash = self._text[self._at : self._at + 2]
        if len(dash) < 2 or dash[0] != "-" or dash[1] == "]":
            return first
        self._at += 1
        last = self._single()
        if not all(len(one) == 1 and one[0][0] == one[0][1] for one in (first[0], last[0])):
            raise self._wrong("a range needs two characters")
        ranges = ((first[0][0][0], last[0][0][0]),)
        if ranges[0][0] > ranges[0][1]:
            raise self._wrong("a range ends before it begins")
        return ranges, ranges

    def _single(self) -> _Pair:
        if self._skip("\\"):
            return self._escape(within=True)
        if not self._next():
            raise self._wrong("a character class is not closed")
        self._at += 1
        ranges = cp.one_of(self._text[self._at - 1])
        return ranges, ranges

    def _escape(self, *, within: bool) -> _Pair:
        r"""Return the characters of an escape, behind its `\`."""
        sign = self._next()
        if not sign:
            raise self._wrong("nothing follows the backslash")
        self._at += 1
        if sign in "dDwWsS":
            return _shorthand(sign)
        if sign in "bB" and not (within and sign == "b"):
            raise NotPossible("the regex has a word boundary")
        if sign in "123456789kpPAZzGQE":
            raise NotPossible(f"the regex has \\{sign}, which a grammar cannot express")
        if sign == "b":
            ranges = cp.one_of("\b")
        elif sign in "xu":
            ranges = self._code(sign)
        elif sign in _CONTROL:
            ranges = cp.one_of(_CONTROL[sign])
        elif sign.isalnum():
            name = f"\\{sign}" if sign.isascii() else "an escaped letter"
            raise NotPossible(f"the regex has {name}, which is not known")
        else:
            ranges = cp.one_of(sign)
        return ranges, ranges

    def _code(self, sign: str) -> cp.Ranges:
        found = _HEX[sign].match(self._text, self._at)
        digits = found[0] if found else ""
        if not found and sign == "u":
            found = _BRACED.match(self._text, self._at)
            digits = found[1] if found else ""
        if not found or int(digits, 16) > 0x10FFFF:
            raise self._wrong("an escape lacks its digits")
        self._at = found.end()
        code = int(digits, 16)
        if 0xD800 <= code <= 0xDFFF:
            raise NotPossible("the regex has half of a surrogate pair")
        return ((code, code),)


def _shorthand(sign: str) -> _Pair:
    sure, may_be = {
        "d": (cp.DIGITS, cp.unicode_digits),
        "w": (cp.WORD, cp.unicode_word),
        "s": (cp.SPACE, cp.unicode_space),
    }[sign.lower()]
    if sign.islower():
        return sure, may_be()
    return cp.complement(may_be()), cp.complement(sure)
