"""Whole numbers that clients write with a point: `8.0` counts as 8 where an integer is wanted."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, inspect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def with_whole_numbers(fields: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    """Return fields in which floats without a fraction are integers wherever `kind` wants integers.

    Args:
        fields: as parsed.
        kind: what they are to be converted to; only its own fields and lists in them are looked at.
    """
    return {
        name: _whole(value) if name in _integer_fields(kind) else value
        for name, value in fields.items()
    }


def _whole(value: Any) -> Any:
    if isinstance(value, list):
        return [_whole_number(item) for item in value]
    return _whole_number(value)


def _whole_number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def _integer_fields(kind: type[Struct]) -> frozenset[str]:
    """Return the fields that take an integer or a list of integers."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return frozenset(field.encode_name for field in info.fields if _takes_integers(field.type))


def _takes_integers(kind: inspect.Type) -> bool:
    return any(
        isinstance(option, inspect.IntType)
        or (isinstance(option, inspect.ListType) and _takes_integers(option.item_type))
        for option in _options(kind)
    )


def _options(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        yield from _options(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for option in kind.types:
            yield from _options(option)
    else:
        yield kind
