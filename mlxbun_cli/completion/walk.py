"""Which word of a command line is being completed: a verb, an option, or the value of something.

Pure: words in, a question out. Reads lines as Typer does: options go anywhere behind their verb,
`--name=value` is one word, and behind `--` everything is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlxbun_cli.completion.tree import Parameter, Verb


@dataclass(frozen=True, kw_only=True)
class Question:
    """A word that is to be completed."""

    text: str
    """What there is of it, without what stands before a value: `--sort=na` asks for `na`."""
    before: str = ""
    """What stands before a value in the same word: `--sort=`."""
    choices: tuple[tuple[str, str], ...] = ()
    """Verbs or options, each with its help."""
    parameter: Parameter | None = None
    """Whose value is asked for; None: one of `choices` is."""
    params: dict[str, Any] = field(default_factory=dict)
    """What was given before: an argument's words, or one word; the last value of an option."""


def ask(root: Verb, words: Sequence[str], text: str) -> Question:
    """Return what is asked for.

    Args:
        root: mlxbun itself.
        words: those before the one that is completed, without the name of the program.
        text: the beginning of that one.
    """
    walk = _Walk(root)
    for word in words:
        walk.take(word)
    return walk.ask(text)


class _Walk:
    """Goes along the words and knows what the next one would be."""

    def __init__(self, root: Verb) -> None:
        self._verb = root
        self._waiting: Parameter | None = None  # an option without its value
        self._only_arguments = False  # `--` was there
        self._given: set[str] = set()  # keys of options
        self._rest = list(root.arguments)
        self._params: dict[str, Any] = {}

    def take(self, word: str) -> None:
        """Step over a word that is complete."""
        if self._waiting is not None:
            self._params[self._waiting.key] = word
            self._waiting = None
        elif self._only_arguments or word[:1] != "-" or word == "-":
            self._take_positional(word)
        elif word == "--":
            self._only_arguments = True
        elif word[:2] == "--":
            self._take_option(word)
        else:
            self._take_letters(word)

    def ask(self, text: str) -> Question:
        """Return the question for the word behind all others."""
        if self._waiting is not None:
            return self._value(self._waiting, text)
        if text[:1] == "-" and not self._only_arguments:
            return self._option(text)
        if self._verb.verbs:
            verbs = tuple((name, verb.help) for name, verb in self._verb.verbs.items())
            return Question(text=text, choices=verbs)
        if self._rest:
            return self._value(self._rest[0], text)
        # The line may be complete: nobody who presses Tab once too often wants --help.
        options = () if self._only_arguments else self._options()
        return Question(text=text, choices=tuple(one for one in options if one[0] != "--help"))

    def _take_positional(self, word: str) -> None:
        if word in self._verb.verbs:
            self._verb = self._verb.verbs[word]
            self._rest, self._given = list(self._verb.arguments), set()
        elif self._rest and self._rest[0].repeated:
            self._params.setdefault(self._rest[0].key, []).append(word)
        elif self._rest:
            self._params[self._rest.pop(0).key] = word

    def _take_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if (option := self._verb.option(name)) is None:
            return
        self._given.add(option.key)
        if equals:
            self._params[option.key] = value
        elif not option.is_flag:
            self._waiting = option

    def _take_letters(self, word: str) -> None:
        """Take `-y`, `-yn 3` or `-n3`."""
        for place, letter in enumerate(word[1:], 2):
            option = self._verb.option(f"-{letter}")
            if option is None:
                return
            self._given.add(option.key)
            if not option.is_flag:
                if value := word[place:]:
                    self._params[option.key] = value
                else:
                    self._waiting = option
                return

    def _option(self, text: str) -> Question:
        name, equals, value = text.partition("=")
        if not equals:
            return Question(text=text, choices=self._options())
        option = self._verb.option(name)
        if option is None or option.is_flag:
            return Question(text=text)
        return self._value(option, value, before=name + equals)

    def _options(self) -> tuple[tuple[str, str], ...]:
        """Return the options that can still be given."""
        return tuple(
            (name, option.help)
            for option in self._verb.options
            if option.repeated or option.key not in self._given
            for name in option.names
        )

    def _value(self, parameter: Parameter, text: str, *, before: str = "") -> Question:
        return Question(text=text, before=before, parameter=parameter, params=self._params)
