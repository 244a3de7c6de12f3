"""What is said where a form is not enforced."""

from __future__ import annotations

from core.engine.grammar import NotEnforced
from core.engine.grammar.degrade import instruction, warning
from core.engine.request import GrammarSpec


def test_instructions_state_the_form() -> None:
    schema = {"type": "object", "properties": {"naïve": {"type": "string"}}}
    assert "JSON only" in instruction(GrammarSpec(kind="json"))
    stated = instruction(GrammarSpec(kind="json_schema", source=schema))
    assert '{"type": "object", "properties": {"naïve": {"type": "string"}}}' in stated
    assert "root ::= x" in instruction(GrammarSpec(kind="ebnf", source="root ::= x"))
    assert "[a-z]+" in instruction(GrammarSpec(kind="regex", source="[a-z]+"))
    assert '"yes"\n"no"' in instruction(GrammarSpec(kind="choice", source=("yes", "no")))


def test_instructions_never_fail_and_never_fill_the_context() -> None:
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    for source in (deep, None, object(), {"a": object()}, "x" * 10**6):
        for kind in ("json_schema", "ebnf", "regex", "choice"):
            text = instruction(GrammarSpec(kind=kind, source=source))
            assert 0 < len(text) < 25_000 or (kind, source) == ("choice", None)


def test_warnings_fit_into_a_header() -> None:
    text = warning(NotEnforced(reason="naïve\r\n  text " + "x" * 500))
    assert text.startswith("grammar not enforced: na?ve text xxx")
    assert len(text) == 300
