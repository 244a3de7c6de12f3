"""The verbs with their options and arguments, as completion needs them. Read from verbs.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("verbs.json")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """An option or an argument."""

    key: str
    """What its function calls it."""
    names: tuple[str, ...] = ()
    """How an option is spelled; an argument has none."""
    help: str = ""
    """What it means."""
    is_flag: bool = False
    """It takes no value."""
    repeated: bool = False
    """It may be given several times."""
    words: tuple[str, ...] = ()
    """The only values that it has, if they are few."""
    ask: str = ""
    """`module:function` that knows its values; empty: nobody does."""
    paths: bool = False
    """Its values are files."""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A command, or a group of them."""

    help: str
    """What it does."""
    options: tuple[Parameter, ...] = ()
    """In the order of its help."""
    arguments: tuple[Parameter, ...] = ()
    """In their order."""
    verbs: dict[str, Verb]
    """The commands of a group; a command has none."""

    def option(self, name: str) -> Parameter | None:
        """Return the option that is spelled so."""
        return next((option for option in self.options if name in option.names), None)


def load_tree() -> Verb:
    """Return mlxbun itself, with all its verbs."""
    return verb_of(json.loads(TABLE.read_text(encoding="utf-8")))


def verb_of(plain: dict[str, Any]) -> Verb:
    """Return a verb from what JSON holds of it."""
    return Verb(
        help=plain["help"],
        options=tuple(map(_parameter, plain.get("options", ()))),
        arguments=tuple(map(_parameter, plain.get("arguments", ()))),
        verbs={name: verb_of(verb) for name, verb in plain.get("verbs", {}).items()},
    )


def _parameter(plain: dict[str, Any]) -> Parameter:
    lists = {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
    return Parameter(**(plain | lists))
