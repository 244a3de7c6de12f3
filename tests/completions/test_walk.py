"""Which word is asked for."""

from __future__ import annotations

import pytest

from mlxbun_cli.completion.tree import Parameter, Verb, load_tree
from mlxbun_cli.completion.walk import ask

JSON = Parameter(key="json", names=("--json",), help="As JSON.", is_flag=True)
YES = Parameter(key="yes", names=("--yes", "-y"), is_flag=True)
KEEP = Parameter(key="keep", names=("--keep", "-k"))
ONLY = Parameter(key="only", names=("--only",), repeated=True)
HELP = Parameter(key="help", names=("--help",), is_flag=True)
NAME = Parameter(key="name")
REST = Parameter(key="rest", repeated=True)

TIDY = Verb(
    help="Tidy up.", options=(JSON, YES, KEEP, ONLY, HELP), arguments=(NAME, REST), verbs={}
)
CONFIG = Verb(help="Settings.", verbs={"show": Verb(help="Show.", options=(JSON, HELP), verbs={})})
ROOT = Verb(help="All.", options=(JSON,), verbs={"tidy": TIDY, "config": CONFIG})


def choices(*words: str, text: str = "") -> list[str]:
    return [name for name, _ in ask(ROOT, words, text).choices]


def asked(*words: str, text: str = "") -> str | None:
    parameter = ask(ROOT, words, text).parameter
    return parameter.key if parameter else None


def test_verbs_come_with_their_help() -> None:
    assert ask(ROOT, [], "").choices == (("tidy", "Tidy up."), ("config", "Settings."))
    assert choices("config") == ["show"]
    assert choices("--json") == ["tidy", "config"]


def test_options_of_the_verb_that_is_there() -> None:
    assert choices(text="-") == ["--json"]
    assert choices("tidy", text="-") == [
        "--json", "--yes", "-y", "--keep", "-k", "--only", "--help",
    ]  # fmt: skip
    assert choices("tidy", "a", "b", text="--") == choices("tidy", text="-")


def test_an_option_is_offered_once_unless_it_may_be_repeated() -> None:
    given = choices("tidy", "--json", "-y", "--keep=3", "--only", "x", text="-")
    assert given == ["--only", "--help"]


@pytest.mark.parametrize(
    "words",
    [
        ["--keep"],
        ["-k"],
        ["-yk"],
        ["--json", "--keep"],
        ["a", "--keep"],
        ["--only", "x", "--keep"],
    ],
)
def test_the_value_of_an_option(words: list[str]) -> None:
    question = ask(ROOT, ["tidy", *words], "3")
    assert question.parameter is KEEP
    assert (question.text, question.before) == ("3", "")
    assert question.choices == ()


def test_a_value_in_the_same_word() -> None:
    question = ask(ROOT, ["tidy"], "--keep=3=4")
    assert question.parameter is KEEP
    assert (question.text, question.before) == ("3=4", "--keep=")


@pytest.mark.parametrize("word", ["--json=", "--no-such=", "-x="])
def test_what_takes_no_value_gets_none(word: str) -> None:
    question = ask(ROOT, ["tidy"], word)
    assert question.parameter is None
    assert question.choices == ()


def test_arguments_in_their_order() -> None:
    assert asked("tidy") == "name"
    assert asked("tidy", "a") == "rest"
    assert asked("tidy", "a", "b", "c") == "rest"
    assert asked("tidy", "--keep", "3") == "name"
    assert asked("tidy", "-k3") == "name"
    assert asked("tidy", "-y") == "name"
    assert asked("tidy", "-") == "rest"


def test_what_was_given_is_told() -> None:
    question = ask(ROOT, ["tidy", "a", "--keep", "3", "b", "--keep=4", "c"], "")
    assert question.params == {"name": "a", "keep": "4", "rest": ["b", "c"]}


def test_behind_two_dashes_all_is_an_argument() -> None:
    assert asked("tidy", "--", text="--js") == "name"
    assert ask(ROOT, ["tidy", "--", "--keep", "-y"], "").params == {
        "name": "--keep",
        "rest": ["-y"],
    }
    assert choices("config", "show", "--", text="") == []


def test_options_where_no_argument_is_left_but_not_the_help() -> None:
    assert choices("config", "show") == ["--json"]
    assert choices("config", "show", "--json") == []
    assert choices("config", "show", text="--") == ["--json", "--help"]


def test_words_that_mean_nothing_are_stepped_over() -> None:
    assert choices("nonsense") == ["tidy", "config"]
    assert asked("tidy", "--no-such", "-z") == "name"
    assert choices("config", "nonsense") == ["show"]


def test_the_table_holds_every_verb_with_a_help() -> None:
    tree = load_tree()
    assert {"serve", "chat", "ls", "config"} <= set(tree.verbs)
    assert set(tree.verbs["config"].verbs) == {"show", "set"}
    for verb in (*tree.verbs.values(), *tree.verbs["config"].verbs.values()):
        assert verb.help
        assert all(option.help and option.names for option in verb.options)
        assert verb.option("--help")
