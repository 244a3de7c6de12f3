"""Grammars as xgrammar reads them, written from trees and automata. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from core.engine.grammar import codepoints as cp
from core.engine.grammar.automaton import Automaton
from core.engine.grammar.regex import Anchor, Chars, Choice, Node, Repeat, Run
from core.engine.grammar.screen import NothingMatches, NotPossible

_MOST_RULES = 20_000
_MOST_TEXT = 2_000_000
_MANY = 0x80000
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,:;/+=()<>{}")

Spell: TypeAlias = Callable[[cp.Ranges], str]
"""Writes one character of a set as an expression."""


def literal(text: str) -> str:
    r"""Return a text as EBNF writes it: JSON's escapes, but `\U` for what lies beyond 16 bits."""
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if 0x20 <= code < 0x7F:
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@lru_cache(maxsize=1024)
def characters(ranges: cp.Ranges) -> str:
    """Return one character of a set, as it is.

    Raises:
        NothingMatches: the set is empty.
    """
    if not ranges:
        raise NothingMatches("nothing matches it")
    # xgrammar is much faster with what a large set leaves out than with what is in it.
    if sum(last - first for first, last in ranges) > _MANY:
        gone = cp.union([cp.complement(ranges), ((0xD800, 0xDFFF),)])
        return f"[^{_members(gone)}]"
    return f"[{_members(ranges)}]"


def _members(ranges: cp.Ranges) -> str:
    return "".join(
        _member(first) if first == last else f"{_member(first)}-{_member(last)}"
        for first, last in ranges
    )


def _member(code: int) -> str:
    if code in _PLAIN:
        return chr(code)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def either(options: list[str]) -> str:
    """Return any of some expressions."""
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def repeat(expression: str, least: int, most: int | None) -> str:
    """Return an expression several times."""
    if (least, most) == (1, 1):
        return expression
    sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    return expression + (sign or f"{{{least},{'' if most is None else most}}}")


class Writer:
    """The rules of one grammar."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._size = 0

    def reserve(self) -> str:
        """Return the name of a rule that is written later: it may refer to itself."""
        name = f"r{len(self._rules)}"
        self._rules[name] = ""
        if len(self._rules) > _MOST_RULES:
            raise NotPossible("its grammar is too large")
        return name

    def define(self, name: str, body: str) -> str:
        """Write a rule; return its name."""
        self._weigh(body)
        self._rules[name] = body
        return name

    def _weigh(self, text: str) -> None:
        self._size += len(text)
        if self._size > _MOST_TEXT:
            raise NotPossible("its grammar is too large")

    def rule(self, body: str) -> str:
        """Write a new rule; return its name."""
        return self.define(self.reserve(), body)

    def once(self, name: str, make: Callable[[], str]) -> str:
        """Return the name of a rule that is written when it is first needed."""
        if name not in self._rules:
            self._rules[name] = ""
            self.define(name, make())
        return name

    def grammar(self, root: str) -> str:
        """Return the grammar that begins with an expression."""
        lines = [f"root ::= {root}", *(f"{name} ::= {body}" for name, body in self._rules.items())]
        return "\n".join(lines)

    def tree(self, node: Node, spell: Spell) -> str:
        """Return what a regular expression matches, as an expression.

        Raises:
            NothingMatches: nothing does.
        """
        if isinstance(node, Chars):
            spelled = spell(node.ranges)
            self._weigh(spelled)
            return spelled
        if isinstance(node, Choice):
            return either(self._possible(node.options, spell))
        if isinstance(node, Repeat):
            return self._repeated(node, spell)
        if isinstance(node, Anchor):
            raise NotPossible("the regex has an anchor that is not at an end of it")
        return self._run(node, spell)

    def _possible(self, options: tuple[Node, ...], spell: Spell) -> list[str]:
        found = []
        for option in options:
            try:
                found.append(self.tree(option, spell))
            except NothingMatches:
                continue
        if not found:
            raise NothingMatches("nothing matches it")
        return found

    def _repeated(self, node: Repeat, spell: Spell) -> str:
        try:
            inner = self.tree(node.node, spell)
        except NothingMatches:
            if node.least:
                raise
            return '""'
        if node.most == 0:
            return '""'
        return repeat(f"({inner})", node.least, node.most)

    def _run(self, node: Run, spell: Spell) -> str:
        parts = [self.tree(part, spell) for part in node.parts]
        return f"({' '.join(parts)})" if parts else '""'

    def automaton(self, automaton: Automaton, spell: Spell, escape: str = "") -> str:
        """Return the texts of an automaton as an expression.

        Args:
            automaton: any.
            spell: writes its characters.
            escape: what may come anywhere beside them, and leads back to the first state; empty:
                nothing.

        Raises:
            NothingMatches: there are none.
        """
        if automaton.is_empty:
            raise NothingMatches("nothing matches it")
        names = [self.reserve() for _ in automaton.edges]
        for state, edges in enumerate(automaton.edges):
            options = [f"{spell(ranges)} {names[target]}" for ranges, target in edges]
            if state in automaton.accepting:
                options.append('""')
            if escape:
                options.append(f"{escape} {names[0]}")
            self.define(names[state], " | ".join(options))
        return names[0]


_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = cp.union([cp.one_of('"\\'), ((0, 0x1F),)])


ESCAPE = "escape"
"""The rule of what stands behind a backslash in JSON; surrogates come in pairs only."""


def escape_rule() -> str:
    """Return the body of the rule `ESCAPE`."""
    any_, two = "[0-9A-Fa-f]", "[0-9A-Fa-f]{2,2}"
    pair = f'[Dd] [89ABab] {two} "\\\\u" [Dd] [C-Fc-f] {two}'
    code = f"([0-9A-Ca-cE-Fe-f] {any_}{{3,3}} | [Dd] [0-7] {two} | {pair})"
    return f'["\\\\/bfnrt] | "u" {code}'


class JsonCharacters:
    """Spells characters as they stand in JSON strings.

    A set of which some can stand there as they are is spelled by those: masks of sets that may be
    escaped as well take hundreds of times as long.
    """

    def __init__(self, *, hidden: str = "") -> None:
        """Take what is always escaped.

        Args:
            hidden: printable ASCII characters.
        """
        self._kept = cp.union([_ESCAPED, cp.one_of(hidden)])

    def __call__(self, ranges: cp.Ranges) -> str:
        """Return one character of a set as an expression.

        Raises:
            NothingMatches: the set is empty.
        """
        raw = cp.minus(ranges, self._kept)
        return characters(raw) if raw or not ranges else either(self._escapes(ranges))

    @staticmethod
    def _escapes(ranges: cp.Ranges) -> list[str]:
        codes = [code for first, last in ranges for code in range(first, last + 1)]
        return [literal(_SHORT.get(chr(code), f"\\u{code:04x}")) for code in codes]
