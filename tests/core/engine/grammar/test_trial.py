"""Forms that would hold a process up are ended in another one."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest

from core.engine.grammar import Grammars, NotEnforced
from core.engine.grammar.build import Tokens
from core.engine.grammar.plan import Plan, make_plan
from core.engine.grammar.screen import NotPossible
from core.engine.grammar.trial import tell, try_out
from core.engine.request import GrammarSpec

# As many tokens as a small model has: what is slow is so by their number.
_WORDS = map(bytes, product(b"abcdefghijklmnopqrstuvwxyz ", repeat=3))
_BYTES = (bytes([byte]) for byte in range(256))
TOKENS = Tokens(texts=(*_BYTES, b"", *_WORDS), stop_ids=(256,))


def refused(plan: Plan, *, seconds: float = 20.0) -> str:
    with pytest.raises(NotPossible) as refusal:
        try_out(plan, TOKENS, seconds=seconds)
    return str(refusal.value)


def test_what_is_all_right_passes() -> None:
    try_out(make_plan(GrammarSpec(kind="regex", source="(ab?)+c"), None), TOKENS, seconds=30.0)
    try_out(Plan(text='root ::= "a" root | "b"'), TOKENS, seconds=30.0)


def test_what_takes_too_long_is_ended() -> None:
    assert refused(Plan(text="root ::= " + '"a"? ' * 2000), seconds=2.0) == (
        "compiling takes longer than 2 seconds"
    )


def test_what_would_take_too_long_later_is_seen() -> None:
    ambiguous = 'root ::= s\ns ::= s s s | s s | [a-z ] | ""'
    said = refused(Plan(text=ambiguous))
    assert said in (
        "following the grammar takes too long",
        "compiling takes longer than 20 seconds",
    )


def test_what_is_no_form_says_why() -> None:
    assert "is not defined" in refused(Plan(text="root ::= a"))


def test_only_plain_forms_are_compiled_here_at_once(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_plan: Plan, _tokens: Tokens) -> None:
        raise NotPossible("tried")

    monkeypatch.setattr("core.engine.grammar.compiler.try_out", refuse)
    tried = NotEnforced(reason="tried")
    wide = {"properties": {f"p{n}": {"type": "string"} for n in range(500)}}
    for kind, source in (
        ("ebnf", 'root ::= "tried" "out"'),
        ("regex", r"(\w+\s?){1,30}"),
        ("json_schema", wide),
        ("json_schema", {"patternProperties": {"^a": {}}}),
        ("json_schema", {"pattern": "^(a+)+$"}),
    ):
        assert grammars.prepare(GrammarSpec(kind=kind, source=source)) == tried  # type: ignore[arg-type]
    for kind, source in (
        ("regex", r"\d{3,4}-[a-f]+"),
        ("json_schema", {"properties": {"plain": {"pattern": "^a+$"}}}),
    ):
        assert grammars.prepare(GrammarSpec(kind=kind, source=source)) != tried  # type: ignore[arg-type]


def test_places_in_foreign_code_are_not_told() -> None:
    said = "[21:45:05] /project/cpp/regex_converter.cc:94: Regex parsing error at 1: no\nmore"
    assert tell(RuntimeError(said)) == "Regex parsing error at 1: no"
    said = "[1] /a.cc:4: Check failed: (x) is false: too large, naïve"
    assert tell(RuntimeError(said)) == "too large, na?ve"
    assert tell(ValueError()) == "ValueError"


QUIET = """
import sys
from core.engine.grammar import Grammars, compiler
from core.engine.grammar.library import load_xgrammar
from core.engine.request import GrammarSpec
from tests.core.engine.grammar.conftest import EOS, VOCABULARY, Bytes
if sys.argv[1] == "raw":
    load_xgrammar().Grammar.from_json_schema('{"type": "number", "multipleOf": 0.5}')
grammars = Grammars(Bytes(), VOCABULARY, [EOS])
for schema in (
    {"type": "number", "multipleOf": 0.5},
    {"type": "integer", "multipleOf": 3, "minimum": 2},
    {"type": "string", "pattern": "^a+$", "minLength": 1, "maxLength": 3},
    {"type": "string", "format": "date", "maxLength": 30},
    {"allOf": [{"minimum": 1}, {"uniqueItems": True}], "unknown": 3},
    {"type": "string", "pattern": "(?!a)b"},
    {"type": "array", "items": [{"type": "integer"}]},
):
    grammars.prepare(GrammarSpec(kind="json_schema", source=schema))
for pattern in (r"\\h", "a{2,99999999}", "a^b", "(?=a)b", "[a"):
    grammars.prepare(GrammarSpec(kind="regex", source=pattern))
for text in ('root[max_chars=2] ::= "abcdef"', 'root ::= "a" (="b")', 'root ::= "a"{1,99999999}'):
    form = grammars.prepare(GrammarSpec(kind="ebnf", source=text))
    for byte in b"abcdef" * hasattr(form, "start"):
        form.start().accept(byte)
"""


@pytest.mark.parametrize("mode", ["ours", "raw"])
def test_no_line_of_xgrammar_reaches_stderr(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUIET, mode], capture_output=True, text=True, check=True, timeout=100
    )
    assert (".cc:" in done.stderr) == (mode == "raw"), done.stderr
    assert mode == "raw" or done.stderr == ""


def test_what_xgrammar_warns_of_is_not_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"[10:00:00] /project/cpp/a.cc:94: ignoring the rest\n"
    done = subprocess.CompletedProcess([], 0, stdout=b"", stderr=said)
    monkeypatch.setattr("core.engine.grammar.trial.subprocess.run", lambda *_a, **_k: done)
    assert refused(Plan(text='root ::= "a"')) == "ignoring the rest"
