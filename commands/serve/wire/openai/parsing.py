"""From the bytes of a body to the fields of a JSON object. Knows no field.

Accepts what clients send although JSON forbids it: a byte order mark, numbers of any size,
halves of UTF-16 pairs.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from core.errors import BadRequest

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_MENDED = "the body holds half of a UTF-16 surrogate pair, replaced by U+FFFD"


@dataclass(frozen=True, kw_only=True)
class Body:
    """A parsed body."""

    fields: dict[str, Any]
    """Its fields, without those that are null."""
    warnings: tuple[str, ...]
    """What was changed in it, one sentence each."""


def parse_object(body: bytes | bytearray) -> Body:
    """Parse a body that must be a JSON object.

    Raises:
        BadRequest: it is not one.
    """
    try:
        value, mended = _parse(_without_mark(body))
    except RecursionError:
        raise BadRequest("The JSON body is nested too deeply.") from None
    except (msgspec.DecodeError, ValueError):
        raise BadRequest("invalid JSON body") from None
    if not isinstance(value, dict):
        raise BadRequest("The body must be a JSON object.")
    fields = {name: field for name, field in value.items() if field is not None}
    return Body(fields=fields, warnings=(_MENDED,) if mended else ())


def _without_mark(body: bytes | bytearray) -> bytes | bytearray | memoryview:
    """Return the JSON behind a byte order mark, which editors and .NET write (RFC 8259, 8.1)."""
    if not body.startswith(_BYTE_ORDER_MARK):
        return body
    return memoryview(body)[len(_BYTE_ORDER_MARK) :]


def _parse(body: bytes | bytearray | memoryview) -> tuple[Any, bool]:
    """Return the value, and whether lone surrogates in it were replaced."""
    try:
        return msgspec.json.decode(body), False
    except msgspec.ValidationError:
        pass  # JSON allows numbers of any size and msgspec does not
    except msgspec.DecodeError:
        if not _ESCAPED_SURROGATE.search(body):
            raise
    # Python's parser lets such numbers through as infinity, so that their field can be named, and
    # lone surrogates, which no tokenizer accepts.
    value = json.loads(
        str(body, "utf-8"), parse_constant=_refuse_constant, parse_int=_any_int, parse_float=float
    )
    text = json.dumps(value, ensure_ascii=False)
    if not _SURROGATE.search(text):
        return value, False
    mended = _SURROGATE.sub("\ufffd", text)
    # The constants in it are infinities that were numbers before.
    return json.loads(mended, parse_constant=float, parse_int=_any_int), True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _any_int(digits: str) -> int | float:
    if len(digits) < 400:
        return int(digits)
    return -math.inf if digits.startswith("-") else math.inf
