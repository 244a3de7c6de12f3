"""llama.cpp's grammars: what they write otherwise than xgrammar."""

from __future__ import annotations

import pytest

from core.engine.grammar import CompiledForm, Grammars
from core.engine.grammar.gbnf import from_gbnf
from core.engine.request import GrammarSpec


@pytest.mark.parametrize(
    ("grammar", "wanted"),
    [
        ('root ::= "a" | "b"', None),
        ('root ::= "a.b" # c. |\n  | [.|(] x.y', None),
        ('ws ::= | " "', 'ws ::= "" | " "'),
        ('root ::= ("a" | )', 'root ::= ("a" | "" )'),
        ('root ::= "a" |', 'root ::= "a" | ""'),
        ("root ::=", 'root ::= ""'),
        ("root ::= .*", r"root ::= [\x00-\U0010ffff]*"),
        ('root ::= "a | .', None),
    ],
)
def test_what_is_rewritten(grammar: str, wanted: str | None) -> None:
    assert from_gbnf(grammar) == (grammar if wanted is None else wanted)


@pytest.mark.parametrize("piece", ["[", '"\\', "|", ".", "(|", '\\"', "#", "a"])
def test_any_text_is_read_once(piece: str) -> None:
    assert from_gbnf(piece * 50_000)


JSON = r"""root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize("grammar", [JSON, 'root ::= "a" . "b"'])
def test_grammars_of_llama_cpp_compile(grammars: Grammars, grammar: str) -> None:
    made = grammars.prepare(GrammarSpec(kind="ebnf", source=grammar))
    assert isinstance(made, CompiledForm)
