"""One table of all that can be chosen for a piece of work, read from options, files and JSON alike.

A table is a frozen dataclass whose fields carry in their metadata how they are read and what they
mean (`choice`). Imports no arrays.
"""

from __future__ import annotations

import json
from dataclasses import Field, field, fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from core.errors import NotFound, UsageProblem
from core.registry.files import printable
from core.values import Choice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.values import Reader

T = TypeVar("T")


def choice(default: Any, read: Reader, help_text: str) -> Any:
    """Return a field of a table: its default, how it is read, and what it means."""
    return field(default=default, metadata={"read": read, "help": help_text})


def shown(value: Any) -> str:
    """Return a foreign value as a short text for a sentence."""
    try:
        return printable(repr(value), 40)
    except (RecursionError, ValueError):  # nested deeply, or a number of thousands of digits
        return f"{type(value).__name__} beyond all measure"


class FieldTable(Generic[T]):
    """Reads a dataclass of choices.

    Attributes:
        fields: the dataclass's fields by name.
        names: their names in order.
    """

    def __init__(self, kind: type[T], *, what: str) -> None:
        """Take the fields of a dataclass.

        Args:
            kind: the dataclass; every field has a default and metadata from `choice`.
            what: the work, as the subject of a sentence: `A training`.
        """
        self.fields: dict[str, Field[Any]] = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
        self.names: tuple[str, ...] = tuple(self.fields)
        self._kind = kind
        self._what = what

    def help(self, name: str) -> str:
        """Return what a field means."""
        return str(self.fields[name].metadata["help"])

    def default(self, name: str) -> Any:
        """Return a field's default."""
        return self.fields[name].default

    def choices(self, name: str) -> tuple[str, ...]:
        """Return the only values of a field; none where there are more."""
        read = self.fields[name].metadata["read"]
        return read.words if isinstance(read, Choice) else ()

    def merged(
        self, *layers: Mapping[str, Any], where: tuple[str, ...] = (), base: T | None = None
    ) -> T:
        """Merge raw values into one; later layers go before earlier ones.

        Args:
            layers: names to raw values: a file's, JSON's, the command line's. None means not given.
            where: for each layer, how to call one of its fields in an error: `{} in train.toml`,
                `--{}`; the bare name where there is none.
            base: what stands where no layer says anything; None: the defaults.

        Raises:
            UsageProblem: an unknown name, or a value outside its range.
        """
        values: dict[str, Any] = {}
        for index, layer in enumerate(layers):
            form = where[index] if index < len(where) else "{}"
            known = {name: raw for name, raw in layer.items() if raw is not None}
            values |= {name: self.read(name, raw, form=form) for name, raw in known.items()}
        made: T = replace(base or self._kind(), **values)  # type: ignore[type-var]
        return made

    def read(self, name: str, raw: Any, *, form: str = "{}") -> Any:
        """Return one field's value.

        Raises:
            UsageProblem: there is no such field, or the value is none of its own.
        """
        if name not in self.fields:
            raise UsageProblem(
                f"{self._what} has no field {_called(form, shown(name))}.", hint=self._near(name)
            )
        said = name.replace("_", "-") if form.startswith("--") else name
        try:
            return self.fields[name].metadata["read"](raw)
        except ValueError as wanted:
            told = f"{_called(form, said)} must be {wanted}, not {shown(raw)}."
            raise UsageProblem(told) from None

    def as_json(self, made: T) -> dict[str, Any]:
        """Return every field, as `merged` takes them."""
        values = {name: getattr(made, name) for name in self.names}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    def _near(self, name: str) -> str:
        """Return what an unknown name may have been meant to be."""
        near = get_close_matches(name.lower().replace("-", "_"), self.names, n=1)
        return f"Did you mean {near[0]}?" if near else f"There are {', '.join(self.names)}."


def read_table_file(path: Path) -> dict[str, Any]:
    """Return the raw values of a TOML, YAML or JSON file.

    Raises:
        NotFound: there is no such file.
        UsageProblem: it cannot be read, or is no table of fields.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = _parse(text, path.suffix.lower())
    except FileNotFoundError:
        raise NotFound(f"There is no configuration file {path}.") from None
    except (OSError, UnicodeDecodeError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise UsageProblem(f"The configuration file {path} cannot be read: {reason}.") from problem
    except RecursionError:
        raise UsageProblem(f"The configuration file {path} is nested too deeply.") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UsageProblem(f"The configuration file {path} is no table of fields.")
    return values


def _called(form: str, name: str) -> str:
    """Return how a field is called; a file's name in the form may hold braces of its own."""
    return form.replace("{}", name, 1)


def _parse(text: str, suffix: str) -> Any:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_each_once)
    if suffix in (".yaml", ".yml"):
        import yaml  # type: ignore[import-untyped]

        try:
            _refuse_twice(yaml.compose(text, yaml.SafeLoader))
            return yaml.safe_load(text) or {}
        except yaml.YAMLError as problem:
            raise ValueError(" ".join(str(problem).split())) from problem
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    raise ValueError("its name ends in none of .toml, .yaml, .yml and .json")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON.

    Raises:
        ValueError: a name stands in it twice, of which JSON would take the last one.
    """
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"it says {shown(name)} twice")
        values[name] = value
    return values


def _refuse_twice(node: Any) -> None:
    """Do for the outermost mapping of a YAML document what `_each_once` does."""
    if getattr(node, "id", None) == "mapping":
        _each_once([(str(key.value), None) for key, _ in node.value])
