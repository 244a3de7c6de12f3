"""The fields of a config.json, read with suspicion: it is a stranger's file.

Whatever stands in it, a field is a value within its range or an error that names the field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.errors import BadModelFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

# Beyond every model there is by a factor of ten: what is larger is damage or malice.
MOST_LAYERS = 10_000
MOST_KINDS = 512  # of layers in one model
MOST_WIDTH = 10_000_000
MOST_TOKENS = 2**31 - 1
# A config that tells no window sets no limit (core/engine/loader.py).
NO_LIMIT = 2**31 - 1

_HINT = "Download the model again, or check that mlx-lm can load it."


class Fields:
    """One object of a config.json."""

    def __init__(self, values: Mapping[str, Any], *, within: str = "") -> None:
        self._values = values
        self._within = within

    def has(self, name: str) -> bool:
        """Return whether a field is there and not null."""
        return self._values.get(name) is not None

    def whole(
        self, *names: str, default: int | None = None, low: int = 1, high: int = MOST_WIDTH
    ) -> int:
        """Return the first of several fields that is there, as a whole number.

        Args:
            names: what the field may be called; the first name is the one in errors.
            default: what counts when none is there; None: one has to be.
            low: the least it may be.
            high: the most it may be.

        Raises:
            BadModelFiles: it is missing, no whole number, or outside its range.
        """
        name = next((each for each in names if self.has(each)), None)
        if name is None:
            if default is None:
                raise BadModelFiles(f"config.json has no {self._path(names[0])}.", hint=_HINT)
            return default
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(name, value, f"a whole number from {low:,} to {high:,}")
        return value

    def largest(self, *names: str, default: int) -> int:
        """Return the first of several fields that is there; of a list, its largest entry.

        Raises:
            BadModelFiles: it is no whole number from 0 on, and no list of such.
        """
        name = next((each for each in names if self.has(each)), None)
        if name is None:
            return default
        if isinstance(self._values[name], list):
            return max(self.numbers(name) or [default])
        return self.whole(name, low=0)

    def text(self, name: str) -> str | None:
        """Return a field that is text, else None."""
        value = self._values.get(name)
        return value if isinstance(value, str) else None

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return whether a field is true; anything but true and false is the default."""
        value = self._values.get(name)
        return value if isinstance(value, bool) else default

    def words(self, name: str, *, count: int | None = None) -> list[str] | None:
        """Return a list of words, or None when the field is not there.

        Raises:
            BadModelFiles: it is something else, or has another length than `count`.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._wrong(name, value, "a list of words")
        self._check_length(name, value, count)
        return list(value)

    def numbers(self, name: str, *, count: int | None = None) -> list[int] | None:
        """Return a list of whole numbers from 0 on, or None when the field is not there.

        Raises:
            BadModelFiles: it is something else, or has another length than `count`.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(
            type(each) is int and 0 <= each <= MOST_WIDTH for each in value
        ):
            raise self._wrong(name, value, "a list of whole numbers")
        self._check_length(name, value, count)
        return list(value)

    def length(self, name: str) -> int:
        """Return how many entries a list has; 0 when there is no list."""
        value = self._values.get(name)
        return len(value) if isinstance(value, list) else 0

    def inner(self, name: str) -> Fields:
        """Return the object in a field; an empty one when there is none."""
        value = self._values.get(name)
        return Fields(value if isinstance(value, dict) else {}, within=self._path(name) + ".")

    def items(self, name: str, *, count: int) -> list[Fields]:
        """Return the objects of a list.

        Raises:
            BadModelFiles: it is no list of objects, or has another length than `count`.
        """
        value = self._values.get(name)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self._wrong(name, value, "a list of objects")
        self._check_length(name, value, count)
        return [Fields(each, within=f"{self._path(name)}[{i}].") for i, each in enumerate(value)]

    def over(self, inner: Fields) -> Fields:
        """Return these fields with those of another object put over them."""
        return Fields({**self._values, **inner._values}, within=self._within)

    def _check_length(self, name: str, value: list[Any], count: int | None) -> None:
        if len(value) > MOST_LAYERS or (count is not None and len(value) < count):
            wanted = f"{count:,} entries" if count is not None else f"{MOST_LAYERS:,} at most"
            raise BadModelFiles(
                f"config.json's {self._path(name)} has {len(value):,} entries instead of {wanted}.",
                hint=_HINT,
            )

    def _path(self, name: str) -> str:
        return self._within + name

    def _wrong(self, name: str, value: Any, wanted: str) -> BadModelFiles:
        shown = _shown(value)
        return BadModelFiles(
            f"config.json's {self._path(name)} is {shown}, and has to be {wanted}.", hint=_HINT
        )


def text_fields(config: Mapping[str, Any]) -> Fields:
    """Return the fields that describe the language model: `text_config` over the outer ones."""
    outer = Fields(config)
    inner = config.get("text_config")
    return outer.over(Fields(inner)) if isinstance(inner, dict) else outer


def _shown(value: Any) -> str:
    """Return a value for a message: short, and free of control characters."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or deep nesting
        text = f"a {type(value).__name__} that is too long"
    return text if len(text) <= 40 else text[:37] + "..."
