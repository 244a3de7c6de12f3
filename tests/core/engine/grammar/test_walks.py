"""No text that a grammar allows is invalid under its schema: `jsonschema` judges random ones."""

from __future__ import annotations

import json
import random
from datetime import date
from decimal import Decimal
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator

from core.engine.grammar import CompiledForm, Grammars
from core.engine.grammar.automaton import from_regex
from core.engine.grammar.formats import find_format
from core.engine.request import GrammarSpec
from tests.core.engine.grammar.walks import FORMATS, schema, walk


@pytest.fixture(autouse=True)
def no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.engine.grammar.compiler.try_out", lambda _plan, _tokens: None)


def _is_multiple(_validator: Any, step: Any, value: Any, _schema: Any) -> Any:
    """Judge as the numbers are written: 0.3 is a multiple of 0.1."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and Decimal(str(value)) % Decimal(str(step)):
        yield jsonschema.ValidationError(f"{value} is not a multiple of {step}")


def conforms(text: str, name: str) -> bool:
    """Return whether both judges find that a text has a format."""
    known = Draft202012Validator.FORMAT_CHECKER.conforms(text, name)
    other = jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True)
    return known and other.is_valid(text)


VALIDATOR = jsonschema.validators.extend(Draft202012Validator, {"multipleOf": _is_multiple})


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 900), marks=pytest.mark.slow)])
def test_whatever_is_allowed_is_valid(grammars: Grammars, seeds: range) -> None:
    ended = enforced = 0
    for seed in seeds:
        draw = random.Random(seed)
        wanted = schema(draw)
        spec = GrammarSpec(kind="json_schema", source=wanted, strict=draw.random() < 0.5)
        form = grammars.prepare(spec)
        if not isinstance(form, CompiledForm):
            assert "match" in form.reason, wanted
            continue
        if form.unenforced:
            continue
        enforced += 1
        judge = VALIDATOR(wanted, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for _ in range(4):
            text = walk(form, draw)
            if text is not None:
                ended += 1
                problems = list(judge.iter_errors(json.loads(text.decode())))
                assert not problems, (seed, text, wanted)
    assert enforced > 0.7 * len(seeds)
    assert ended > enforced


@pytest.mark.parametrize(
    ("name", "never", "always"),
    [
        (
            "date",
            ["1227-02-31", "2023-02-29", "1900-02-29", "0000-01-01", "2023-04-31", "2023-13-01"],
            ["2024-02-29", "2000-02-29", "1999-12-31", "0400-02-29"],
        ),
        ("time", ["12:39:60Z", "24:00:00Z", "12:00:00"], ["23:59:59Z", "12:00:00.5+01:30"]),
        ("date-time", ["2023-02-29T00:00:00Z", "2023-01-01 00:00:00Z"], ["2023-01-01T00:00:00Z"]),
        ("ipv4", ["040.59.50.45", "1.2.3.256", "1.2.3"], ["0.0.0.0", "255.10.9.199"]),
        ("ipv6", ["1::2::3", ":1", "12345::", "1:2:3:4:5:6:7"], ["::", "::1", "1:2:3:4:5:6:7:8"]),
        ("duration", ["P", "PT", "P1D2Y", "1D"], ["P1Y2M3D", "PT1H", "P2W", "P1DT12H"]),
        ("email", ["a b@c.de", "a..b@c.de", "@c.de"], ["joe.bloggs@example.com"]),
        ("hostname", ["-a.com", "a-.com", "a" * 64], ["example.com", "a-b.c"]),
        ("uuid", ["2eb8aa08aa98-11ea-b4aa73b441d16380"], ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"]),
        ("json-pointer", ["/a~", "a"], ["", "/a~1b/~0"]),
        ("uri", ["//a.b", "a b", "http://a b"], ["https://a.b/c?d=e#f", "mailto:a@b.c"]),
    ],
)
def test_formats(name: str, never: list[str], always: list[str]) -> None:
    tree = find_format(name)
    assert tree is not None
    texts = from_regex(tree)
    assert [text for text in never if texts.matches(text)] == []
    assert [text for text in always if not texts.matches(text)] == []
    assert all(conforms(text, name) for text in always)
    assert not any(conforms(text, name) for text in never)


def test_every_day_is_a_date_and_nothing_else() -> None:
    tree = find_format("date")
    assert tree is not None
    texts = from_regex(tree)
    for year in (1, 4, 100, 400, 1900, 1996, 2000, 2023, 2100, 9999):
        for month in range(14):
            for day in range(33):
                try:
                    date(year, month, day)
                    known = True
                except ValueError:
                    known = False
                assert texts.matches(f"{year:04}-{month:02}-{day:02}") == known


@pytest.mark.parametrize("name", FORMATS)
def test_no_text_of_a_format_is_invalid(grammars: Grammars, name: str) -> None:
    form = grammars.prepare(
        GrammarSpec(kind="json_schema", source={"type": "string", "format": name})
    )
    assert isinstance(form, CompiledForm)
    assert form.unenforced == ()
    draw, ended = random.Random(name), 0
    for _ in range(60):
        text = walk(form, draw)
        if text is not None:
            ended += 1
            assert conforms(json.loads(text.decode()), name), text
    assert ended > 10


def test_strings_hold_characters_only(grammars: Grammars) -> None:
    for source in ({"type": "string"}, {"type": "string", "maxLength": 9}, {"pattern": "^[^a]*$"}):
        form = grammars.prepare(GrammarSpec(kind="json_schema", source=source))
        assert isinstance(form, CompiledForm)
        for text in (b'"\xed\xa0\x80', b'"\xc0\x80', b'"\xff', b'"\xf4\x90\x80\x80', b'"\\ud800"'):
            row = form.start()
            for byte in text:
                row.accept(byte)
            assert row.lost, (source, text)
        row = form.start()
        for byte in '"\u00e9\U0001f600"'.encode():
            row.accept(byte)
        assert row.lost is None


def test_white_space_ends(grammars: Grammars) -> None:
    form = grammars.prepare(GrammarSpec(kind="json_schema", source={"type": "object"}))
    assert isinstance(form, CompiledForm)
    for blanks in (b" " * 10, b"\n" * 3, b"\n" + b" " * 60):
        row = form.start()
        for byte in b"{" + blanks:
            row.accept(byte)
        assert row.lost
