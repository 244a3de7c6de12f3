"""Options made from a table of fields, and what a file of them adds."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from commands._shared.fields import FieldOptions, read_fields
from core.errors import NotFound, UsageProblem
from core.fields import FieldTable, choice
from core.values import Choice, Names, Number, Switch, Text, WholeNumber


@dataclass(frozen=True, kw_only=True)
class _Soup:
    salt: int = choice(0, WholeNumber(0, 9), "Spoons.")
    heat: float | None = choice(None, Number(0, 1), "Share of the flame [half].")
    kind: str = choice("pea", Choice(("pea", "leek")), "Which.")
    herbs: tuple[str, ...] = choice((), Names(numbers=True), "Any.")
    stirred: bool = choice(True, Switch(), "Stir it.")
    hot: bool = choice(False, Switch(), "Add chili.")
    pot: str | None = choice(None, Text(numbers=True), "Which pot.")


_TABLE = FieldTable(_Soup, what="A soup")
_OPTIONS = FieldOptions(
    table=_TABLE,
    panel=lambda name: "Taste" if name in ("salt", "herbs") else None,
    spelled={"pot": ("--pot", "--kettle")},
    metavars={"kind": "KIND"},
)


def _told(parameter: inspect.Parameter) -> tuple[Any, ...]:
    kind, option = get_args(parameter.annotation)
    inner = next(each for each in get_args(kind) if each is not type(None))
    spelled = (option.default, *option.param_decls)
    return inner, spelled, option.help, option.metavar, option.rich_help_panel


def test_every_field_is_an_option() -> None:
    found = {each.name: _told(each) for each in _OPTIONS.parameters(leave_out=("heat",))}
    assert found == {
        "salt": (int, ("--salt",), "Spoons [0].", "N", "Taste"),
        "kind": (str, ("--kind",), "Which [pea].", "KIND", None),
        "herbs": (list[str], ("--herbs",), "Any.", "NAME", "Taste"),
        "stirred": (bool, ("--stirred/--no-stirred",), "Stir it [on].", None, None),
        "hot": (bool, ("--hot/--no-hot",), "Add chili.", None, None),
        "pot": (str, ("--pot", "--kettle"), "Which pot.", "NAME", None),
    }
    (heat,) = (each for each in _OPTIONS.parameters() if each.name == "heat")
    assert _told(heat) == (float, ("--heat",), "Share of the flame [half].", "X", None)


def test_a_repeated_option_is_one_list() -> None:
    given = _OPTIONS.given({"herbs": ["a,b", "c"], "salt": None, "json": True})
    assert given == {"herbs": "a,b,c", "salt": None}
    assert _OPTIONS.given({"herbs": []}) == {"herbs": None}
    assert read_fields(_TABLE.merged, given, None).herbs == ("a", "b", "c")


def test_options_take_precedence_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "soup.toml"
    file.write_text("salt = 3\nkind = 'leek'\nherbs = [4, 'mint']\npot = 2\n", encoding="utf-8")
    soup = read_fields(_TABLE.merged, {"salt": "5", "kind": None}, file)
    assert (soup.salt, soup.kind, soup.herbs, soup.pot) == (5, "leek", ("4", "mint"), "2")


def test_each_error_names_its_place(tmp_path: Path) -> None:
    file = tmp_path / "soup.toml"
    file.write_text("salt = true\n", encoding="utf-8")
    with pytest.raises(UsageProblem, match=r"salt in soup.toml must be"):
        read_fields(_TABLE.merged, {}, file)
    with pytest.raises(UsageProblem, match=r"--salt must be"):
        read_fields(_TABLE.merged, {"salt": 10}, None)
    with pytest.raises(NotFound):
        read_fields(_TABLE.merged, {}, tmp_path / "none.toml")


@pytest.mark.parametrize("raw", [True, [True], [1.5], [None], 1.5, {}])
def test_what_is_no_name(raw: Any) -> None:
    with pytest.raises(UsageProblem):
        _TABLE.read("herbs", raw)
