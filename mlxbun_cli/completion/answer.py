"""What a word may become: asks whoever knows the values, and keeps those that fit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from commands._shared.completion import Candidate, Completer, Tab
    from commands._shared.session import Session
    from mlxbun_cli.completion.tree import Parameter
    from mlxbun_cli.completion.walk import Question

Beside = Literal["nothing", "files", "folders"]
Fit = Literal["start", "inside", "scattered"]
"""They start with the word; or they have it as a part, and take its place, or what they have in
common does; or what they have in common does not have it: then they can only be shown."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the shell may offer."""

    candidates: tuple[tuple[str, str], ...] = ()
    """Whole words, each with a help text or an empty one."""
    fit: Fit = "start"
    """How they fit the word."""
    beside: Beside = "nothing"
    """What the shell itself offers where there is no candidate."""


def answer(question: Question, session: Callable[[], Session]) -> Answer:
    """Return what fits.

    Args:
        question: which word is meant, and what it is so far.
        session: makes the environment and the folders; called only where they are needed.
    """
    if question.parameter is None:
        fitting = [(w, told) for w, told in question.choices if w.startswith(question.text)]
        return Answer(candidates=_shown(fitting, question.before))
    values, beside = _values(question, question.parameter, session)
    fitting = [(word, told) for word, told in values if word.startswith(question.text)]
    fit: Fit = "start"
    if not fitting:
        part = question.text.casefold()
        fitting = [(word, told) for word, told in values if part in word.casefold()]
        common = os.path.commonprefix([word for word, _ in fitting])  # noqa: RUF071 - no paths
        fit = "inside" if part in common.casefold() else "scattered"
    return Answer(candidates=_shown(fitting, question.before), fit=fit, beside=beside)


def _values(
    question: Question, parameter: Parameter, session: Callable[[], Session]
) -> tuple[list[tuple[str, str]], Beside]:
    """Return the values that a parameter may have, and whether paths are values, too."""
    if parameter.paths:
        return [], "files"
    if not parameter.ask:
        return [(word, "") for word in parameter.words], "nothing"
    from commands._shared.completion import FILES, FOLDERS, Tab

    tab = Tab(obj=session(), params=question.params)
    found = list(_call(parameter.ask, tab, question.text))
    beside: Beside = "folders" if FOLDERS in found else "files" if FILES in found else "nothing"
    pairs = [(one, "") if isinstance(one, str) else one for one in found]
    return [pair for pair in pairs if pair[0] not in (FILES, FOLDERS)], beside


def _call(name: str, tab: Tab, text: str) -> Iterable[Candidate]:
    module, _, function = name.partition(":")
    completer = cast("Completer", getattr(import_module(module), function))
    given = {"ctx": tab, "incomplete": text}  # by these names, as Typer has it
    return completer(**{wanted: given[wanted] for wanted in signature(completer).parameters})


def _shown(pairs: Iterable[tuple[str, str]], before: str) -> tuple[tuple[str, str], ...]:
    """Return each word once. What cannot be shown is left out: nobody can choose it."""
    words = {before + word: _line(told) for word, told in pairs if word.isprintable()}
    return tuple(words.items())


def _line(told: str) -> str:
    """Return a help text as one line: files may say what a terminal would obey."""
    line = " ".join(told.split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
