"""What all bodies under `/api` have in common: `ok`, an error beside it, fields read loosely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from core.errors import MlxbunError


class Done(msgspec.Struct, kw_only=True):
    """It was done."""

    ok: Literal[True] = True


class ApiProblem(msgspec.Struct, kw_only=True):
    """It was not done, and why."""

    ok: Literal[False] = False
    error: str


def problem_body(message: str) -> bytes:
    """Return the body that tells a client what went wrong."""
    return msgspec.json.encode(ApiProblem(error=clean(message)))


def error_body(error: MlxbunError) -> bytes:
    """Return the body that tells a client about an error of ours."""
    return problem_body(f"{error.message} {error.hint}" if error.hint else error.message)


def fields_of(body: bytes | bytearray) -> dict[str, Any]:
    """Return the fields of a JSON object; of anything else there are none."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def text_in(fields: dict[str, Any], name: str) -> str:
    """Return a field's text without blanks around it; empty: it is missing or no text."""
    value = fields.get(name)
    return value.strip() if isinstance(value, str) else ""


def clean(text: str) -> str:
    """Return a text from the disk as JSON takes it: names there can be bytes of any kind."""
    return text.encode("utf-8", "replace").decode("utf-8")
