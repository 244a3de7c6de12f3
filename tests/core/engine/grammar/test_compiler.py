"""Forms are enforced as written, end where nothing can follow, and say when they are not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from core.engine.grammar import CompiledForm, Grammars, NotEnforced
from core.engine.grammar.build import bits_of, new_mask
from core.engine.grammar.screen import TooLong
from core.engine.request import GrammarSpec
from core.engine.tools import formats
from tests.core.engine.grammar.conftest import EOS, SPECIAL, VOCABULARY, Bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.core.engine.grammar.conftest import Forms

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def allowed(row: Any) -> set[int]:
    mask = new_mask(VOCABULARY)
    if not row.fill(mask, 0):
        return set(range(VOCABULARY))
    bits = np.unpackbits(mask[0].view(np.uint8), bitorder="little")
    return {int(n) for n in np.flatnonzero(bits)}


@pytest.mark.parametrize(
    ("kind", "source", "text", "ends"),
    [
        ("json", None, '{"a": [1, true]}x', 16),
        ("json_schema", PERSON, '{"name" : "x\\n"} ', 16),
        ("json_schema", {"type": "integer"}, "123", None),
        ("regex", "[a-z]+", "abc", None),
        ("regex", r"^\d{3}-\d\w.$", "555-1x!", 7),
        ("regex", "^a$|^b$", "b", 1),
        ("choice", ("yes", "no"), "yes", 3),
        ("choice", ("a", "ab"), "a", None),
        ("choice", ("a", "ab"), "ab", 2),
        ("choice", ('say "é"\n\\', "😀"), 'say "é"\n\\', 10),
        ("choice", ("x", "😀"), "😀", 4),
        ("ebnf", 'root ::= "a" b\nb ::= "b" | "c"', "ac", 2),
        ("ebnf", 'root ::= "a"*', "aa", None),
    ],
)
def test_a_form_ends_where_nothing_can_follow(
    forms: Forms, kind: Any, source: Any, text: str, ends: int | None
) -> None:
    assert forms.end(forms.compile(kind, source), text) == ends


@pytest.mark.parametrize(
    ("kind", "source", "text"),
    [
        ("json", None, "1"),
        ("json_schema", PERSON, "{}"),
        ("json_schema", PERSON, '{"name": "x", "age": 1}'),
        ("json_schema", {"type": "string", "maxLength": 3}, '"a\tb"'),
        ("regex", "[a-z]+", "aB"),
        ("choice", ("yes", "no"), "yno"),
        ("ebnf", 'root ::= "a"', "b"),
    ],
)
def test_nothing_else_may_come(forms: Forms, kind: Any, source: Any, text: str) -> None:
    assert not forms.takes(forms.compile(kind, source), text)


def test_white_space_and_strictness(forms: Forms) -> None:
    compact = forms.compile("json_schema", PERSON, any_whitespace=False)
    assert forms.takes(compact, '{"name":"x"}')
    assert not forms.takes(compact, '{"name": "x"}')
    loose = forms.compile("json_schema", PERSON, strict=False)
    assert forms.takes(loose, '{"name": "x", "age": 1}')


def test_masks_hold_what_may_come(forms: Forms) -> None:
    row = forms.compile("choice", ("yes", "no")).start()
    yes = EOS + len(SPECIAL) + 2
    assert allowed(row) == {ord("y"), ord("n"), yes}
    row.accept(ord("n"))
    assert allowed(row) == {ord("o")}
    row.accept(ord("o"))
    assert row.complete
    assert allowed(row) == {EOS}
    row.accept(EOS)
    assert row.complete


def test_an_open_end_may_end(forms: Forms) -> None:
    row = forms.compile("regex", "[ab]+").start()
    assert EOS not in allowed(row)
    row.accept(ord("a"))
    assert not row.complete
    assert allowed(row) == {EOS, ord("a"), ord("b")}
    row.accept(EOS)
    assert row.complete


def test_special_tokens_are_no_text(forms: Forms) -> None:
    row = forms.compile("json_schema", {"type": "string"}).start()
    row.accept(ord('"'))
    assert not allowed(row) & set(range(EOS, EOS + len(SPECIAL)))


def test_rows_of_one_form_do_not_disturb_each_other(forms: Forms) -> None:
    form = forms.compile("choice", ("ab", "cd"))
    one, other = form.start(), form.start()
    one.accept(ord("a"))
    assert allowed(one) == {ord("b")}
    assert allowed(other) == {ord("a"), ord("c")}


def test_a_row_starts_again(forms: Forms) -> None:
    row = forms.compile("choice", ("abc",)).start()
    for byte in b"abc":
        row.accept(byte)
    row.restart(list(b"ab"))
    assert not row.complete
    assert allowed(row) == {ord("c")}


def test_a_token_that_is_not_allowed_switches_the_form_off(grammars: Grammars) -> None:
    form = grammars.prepare(GrammarSpec(kind="choice", source=("lost", "found")))
    assert isinstance(form, CompiledForm)
    before = sum(grammars.lost.values())
    for token in (ord("x"), VOCABULARY + 5, -1, EOS):
        row = form.start()
        row.accept(token)
        assert row.lost
        assert not row.complete
        assert not row.fill(new_mask(VOCABULARY), 0)
        row.accept(ord("l"))
    assert sum(grammars.lost.values()) == before + 4


def test_a_dead_end_switches_the_form_off(forms: Forms) -> None:
    row = forms.compile("ebnf", 'root ::= "a" x\nx ::= x "b"').start()
    row.accept(ord("a"))
    assert not row.fill(new_mask(VOCABULARY), 0)
    assert row.lost


CALL: Mapping[str, Any] = {
    "type": "tag",
    "begin": '<call>{"name": "f", "arguments": ',
    "content": formats.schema({"type": "object", "properties": {}}),
    "end": "}</call>",
}


def test_calls_alone_and_beside_a_form(forms: Forms) -> None:
    text = '<call>{"name": "f", "arguments": {}}</call>'
    alone = forms.grammars.prepare(None, calls=CALL)
    assert isinstance(alone, CompiledForm)
    assert forms.end(alone, text) == len(text)
    assert not forms.takes(alone, "yes")
    either = forms.grammars.prepare(GrammarSpec(kind="choice", source=("yes",)), calls=CALL)
    assert isinstance(either, CompiledForm)
    assert forms.end(either, text) == len(text)
    assert forms.end(either, "yes") == 3
    assert not forms.takes(either, "no")


def test_marks_of_calls_may_be_special_tokens(forms: Forms) -> None:
    form = forms.grammars.prepare(
        None, calls={"type": "const_string", "value": f"{SPECIAL[1]}x{SPECIAL[2]}"}
    )
    assert isinstance(form, CompiledForm)
    row = form.start()
    for token in (EOS + 1, ord("x"), EOS + 2):
        assert token in allowed(row)
        row.accept(token)
    assert row.complete


def test_marks_within_arguments_may_be_special_tokens(forms: Forms) -> None:
    string = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    form = forms.grammars.prepare(
        None, calls=formats.schema(string, excludes=(SPECIAL[0],), quote=SPECIAL[2])
    )
    assert isinstance(form, CompiledForm)
    row = form.start()
    for token in (*b"{a:", EOS + 2, ord("x"), EOS + 2):
        assert token in allowed(row)
        row.accept(token)
    assert EOS + 1 not in allowed(row)


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("choice", ()),
        ("choice", ("a", "")),
        ("choice", ("a", 1)),
        ("choice", "abc"),
        ("choice", tuple(f"{n}" for n in range(6000))),
        ("json_schema", []),
        ("json_schema", None),
        ("json_schema", False),
        ("json_schema", {"type": "strng"}),
        ("json_schema", {"type": 5}),
        ("json_schema", {"properties": 5}),
        ("json_schema", {"enum": []}),
        ("json_schema", {"const": float("nan")}),
        ("json_schema", {"const": "\ud800"}),
        ("json_schema", {"minLength": -1}),
        ("json_schema", {"$ref": "#"}),
        ("json_schema", {"$ref": "#/nowhere"}),
        ("json_schema", {"pattern": "("}),
        ("json_schema", {"pattern": "a^b"}),
        ("regex", ""),
        ("regex", "["),
        ("regex", r"(a)\1"),
        ("regex", "a$b"),
        ("regex", None),
        ("regex", "\ud800"),
        ("ebnf", "root ::= ("),
        ("ebnf", "root ::= root"),
        ("ebnf", 'no ::= "root"'),
        ("ebnf", 5),
    ],
)
def test_what_cannot_be_is_not_enforced(grammars: Grammars, kind: Any, source: Any) -> None:
    answer = grammars.prepare(GrammarSpec(kind=kind, source=source))
    assert isinstance(answer, NotEnforced)
    assert answer.reason
    assert answer.reason.isascii()
    assert "\n" not in answer.reason


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("json_schema", {"enum": [f"{n}" for n in range(30_000)]}),
        ("json_schema", {"const": "x" * 300_000}),
        ("json_schema", {"properties": {"x": {"pattern": r"[\w" * 8000}}}),
        ("regex", "[" * 10_000),
        ("regex", "(" * 10_000),
        ("regex", "a{2}" * 10_000 + "{2}"),
        ("ebnf", "x" * 300_000),
    ],
)
def test_what_is_long_and_fails_a_cheap_check_is_told_apart(
    grammars: Grammars, kind: Any, source: Any
) -> None:
    with pytest.raises(TooLong):
        grammars.prepare(GrammarSpec(kind=kind, source=source))


def test_what_is_nested_without_end_is_not_enforced(grammars: Grammars) -> None:
    deep: Any = {"type": "string"}
    for _ in range(50_000):
        deep = {"items": deep}
    answer = grammars.prepare(GrammarSpec(kind="json_schema", source=deep))
    assert answer == NotEnforced(reason="it is nested too deeply")
    while isinstance(deep, dict):  # taken apart by hand: a destructor would recurse
        deep = deep.pop("items", None)


def test_switched_off() -> None:
    off = Grammars(Bytes(), VOCABULARY, [EOS], enabled=False)  # type: ignore[arg-type]
    answer = off.prepare(GrammarSpec(kind="json"))
    assert answer == NotEnforced(reason="grammar compilation disabled by MLXBUN_GRAMMAR=0")
    assert off.blanks() == []


def test_blanks_are_white_space_and_nothing_else(grammars: Grammars) -> None:
    assert grammars.blanks() == [0x0A, 0x20, EOS + len(SPECIAL)]


def test_shortfalls_are_told(forms: Forms) -> None:
    assert forms.compile("json_schema", PERSON).shortfall is None
    partly = forms.compile("json_schema", {"type": "array", "uniqueItems": True, "contains": {}})
    assert partly.shortfall == NotEnforced(
        reason="the schema's contains, uniqueItems (the rest of it is enforced)"
    )


def test_a_form_is_compiled_once(grammars: Grammars, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = grammars._make

    def counted(plan: Any) -> Any:
        made.append(plan)
        return make(plan)

    monkeypatch.setattr(grammars, "_make", counted)
    spec = GrammarSpec(kind="choice", source=("once", "and no more"))
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(grammars.prepare(spec))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all(answer is answers[0] for answer in answers)


def test_what_was_not_used_in_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.engine.grammar.compiler._MOST_KEPT", 2)
    few = Grammars(Bytes(), VOCABULARY, [EOS])  # type: ignore[arg-type]
    specs = [GrammarSpec(kind="choice", source=(text,)) for text in "abc"]
    first = few.prepare(specs[0])
    few.prepare(specs[1])
    assert few.prepare(specs[0]) is first
    few.prepare(specs[2])
    assert few.prepare(specs[0]) is first
    assert len(few._entries) == 2


def test_bits() -> None:
    assert bits_of([0, 31, 32, 99], 64).view(np.uint32).tolist() == [0x80000001, 1]


def test_a_form_that_takes_too_long_is_let_go(forms: Forms) -> None:
    row = forms.compile("choice", ("slow",)).start()
    now = iter(range(0, 100, 2))
    row._clock = lambda: float(next(now))
    row.accept(ord("s"))
    assert row.lost == "following the grammar takes too long"
    assert not row.fill(new_mask(VOCABULARY), 0)
    row._clock = lambda: 0.0
    row.restart([ord("s")])
    assert allowed(row) == {ord("l")}
