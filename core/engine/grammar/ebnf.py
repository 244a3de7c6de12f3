"""Grammars as xgrammar reads them, written from trees and automata. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from core.engine.grammar import codepoints as cp
from core.engine.grammar.automaton import Automaton
from core.engine.grammar.regex import Anchor, Chars, Choice, Node, Repeat, Run
from core.engine.grammar.screen import NothingMatches, NotPossible

_MOST_RULES = 20_000
_MOST_TEXT = 2_000_000
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


def characters(ranges: cp.Ranges) -> str:
    """Return one character of a set, as it is.

    Raises:
        NothingMatches: the set is empty.
    """
    if not ranges:
        raise NothingMatches("nothing matches it")
    parts = (
        _member(first) if first == last else f"{_member(first)}-{_member(last)}"
        for first, last in ranges
    )
    return f"[{''.join(parts)}]"


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
        self._size += len(body)
        if self._size > _MOST_TEXT:
            raise NotPossible("its grammar is too large")
        self._rules[name] = body
        return name

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
            return spell(node.ranges)
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

    def automaton(self, automaton: Automaton, spell: Spell, end: str = '""') -> str:
        """Return the texts of an automaton, each followed by `end`, as an expression.

        Raises:
            NothingMatches: there are none.
        """
        if automaton.is_empty:
            raise NothingMatches("nothing matches it")
        names = [self.reserve() for _ in automaton.edges]
        for state, edges in enumerate(automaton.edges):
            options = [f"{spell(ranges)} {names[target]}" for ranges, target in edges]
            if state in automaton.accepting:
                options.append(end)
            self.define(names[state], " | ".join(options))
        return names[0]


_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = cp.union([cp.one_of('"\\'), ((0, 0x1F),)])


class JsonCharacters:
    """Spells characters as they stand in JSON strings."""

    def __init__(self, writer: Writer, *, hidden: str = "") -> None:
        """Take the grammar.

        Args:
            writer: of the grammar.
            hidden: characters that are always escaped; printable ASCII.
        """
        self._writer = writer
        self._hidden = hidden
        self._kept = cp.union([_ESCAPED, cp.one_of(hidden)])

    def __call__(self, ranges: cp.Ranges) -> str:
        """Return one character of a set as an expression."""
        if ranges == cp.ANY:
            return self._writer.once("char", self._any)
        raw = cp.minus(ranges, self._kept)
        options = [characters(raw)] if raw else []
        options += [literal(text) for text in self._escapes(ranges)]
        if not options:
            raise NothingMatches("nothing matches it")
        return either(options)

    def _escapes(self, ranges: cp.Ranges) -> list[str]:
        codes = [
            code
            for first, last in cp.intersection(ranges, self._kept)
            for code in range(first, last + 1)
        ]
        return [_SHORT.get(chr(code), f"\\u{code:04x}") for code in codes]

    def _any(self) -> str:
        four = "[0-9A-Ca-cE-Fe-f] [0-9A-Fa-f]{3,3}"
        pair = '[Dd] [89ABab] [0-9A-Fa-f]{2,2} "\\\\u" [Dd] [C-Fc-f] [0-9A-Fa-f]{2,2}'
        code = f"({four} | [Dd] [0-7] [0-9A-Fa-f]{{2,2}} | {pair})"
        raw = characters(cp.complement(self._kept))
        return f'{raw} | "\\\\" (["\\\\/bfnrt] | "u" {code})'
