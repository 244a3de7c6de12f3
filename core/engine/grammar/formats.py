r"""The formats of JSON Schema as regular expressions: what they match is valid, always.

Some match less than the RFC allows (a host name has at most eight labels, a URI has an ASCII host),
none matches more. Formats that are not here are not enforced.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from core.engine.grammar.regex import full_match

if TYPE_CHECKING:
    from core.engine.grammar.regex import Node

_LEAP = "(0[48]|[2468][048]|[13579][26])"
_YEAR = r"(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})"
_LEAP_YEAR = rf"(\d\d{_LEAP}|(0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"({_YEAR}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)"
    rf"|02-(0[1-9]|1\d|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
# A leap second is valid at the end of some days only; no clock that people set shows one.
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
_COUNT = r"(0|[1-9]\d{0,5})"
_CLOCK = rf"T({_COUNT}H({_COUNT}M({_COUNT}S)?)?|{_COUNT}M({_COUNT}S)?|{_COUNT}S)"
_DAYS = rf"({_COUNT}Y({_COUNT}M({_COUNT}D)?)?|{_COUNT}M({_COUNT}D)?|{_COUNT}D)"
_DURATION = rf"P({_COUNT}W|{_DAYS}({_CLOCK})?|{_CLOCK})"
_LABEL = "[A-Za-z0-9](-?[A-Za-z0-9]){0,14}"
_TOP = "[A-Za-z](-?[A-Za-z0-9]){0,14}"
_HOST = rf"({_LABEL}\.){{0,7}}{_TOP}"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,15}"
_EMAIL = rf"{_ATOM}(\.{_ATOM}){{0,3}}@({_LABEL}\.){{1,7}}{_TOP}"
_BYTE = r"(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"{_BYTE}(\.{_BYTE}){{3}}"
_H = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    (
        f"({_H}:){{7}}{_H}",
        *(f"({_H}:){{{n}}}(:{_H}){{1,{7 - n}}}" for n in range(1, 7)),
        f":(:{_H}){{1,7}}",
        f"({_H}:){{1,7}}:",
        "::",
    )
)
_PCHAR = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_PATH = rf"(/{_PCHAR}*)*"
_TAIL = rf"(\?({_PCHAR}|[/?])*)?(#({_PCHAR}|[/?])*)?"
_PORT = r"(:[1-9]\d{0,3})?"
_URI = (
    rf"([A-Za-z][A-Za-z0-9+.-]{{1,15}}://({_HOST}|{_IPV4}){_PORT}{_PATH}{_TAIL}"
    rf"|(mailto|urn|tel|data|about|file):{_PCHAR}+{_TAIL})"
)
_REFERENCE = rf"({_URI}|(/{_PCHAR}+)*/?{_TAIL})"
_POINTER = "(/([^~/]|~[01])*)*"
_NAME = "[A-Za-z0-9_]{1,20}"
_TEMPLATE = rf"([A-Za-z0-9._~/:?#&=,;@!$()*+-]|%[0-9A-Fa-f]{{2}}|\{{{_NAME}(,{_NAME}){{0,5}}\}})*"

_PATTERNS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": _DURATION,
    "email": _EMAIL,
    "idn-email": _EMAIL,
    "hostname": _HOST,
    "idn-hostname": _HOST,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uri": _URI,
    "iri": _URI,
    "uri-reference": _REFERENCE,
    "iri-reference": _REFERENCE,
    "uri-template": _TEMPLATE,
    "uuid": "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(0|[1-9]\d{{0,5}})(#|{_POINTER})",
}
NOT_ENFORCED = frozenset({"regex"})
"""Formats of the standard that no grammar here expresses. Others have no meaning in it."""


@cache
def find_format(name: str) -> Node | None:
    """Return what a format matches; None: it is not enforced."""
    pattern = _PATTERNS.get(name)
    return full_match(pattern) if pattern else None
