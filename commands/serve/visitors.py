"""Who may use the routes under `/api`: whoever sits at this machine. Pure: a visit in, words out.

There are no accounts there, so three things must hold. The connection comes from this machine. The
Host header names it: a web page whose name was made to lead here (DNS rebinding) still sends its
own name. And no page of another site has sent the request, which browsers tell in Origin and
Sec-Fetch-Site; programs send neither.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")
_THROUGH_A_PROXY = ("x-forwarded-for", "forwarded", "x-real-ip")


@dataclass(frozen=True, kw_only=True)
class Visit:
    """What is known of a request before it is looked into."""

    client: str | None
    """The address it comes from; None: the socket does not tell."""
    server: str | None
    """The address that it was sent to."""
    headers: Sequence[tuple[str, str]]
    """Names in lower case."""

    def all(self, name: str) -> list[str]:
        """Return every value of a header, in lower case."""
        return [value.strip().lower() for key, value in self.headers if key == name]


def refusal(visit: Visit, *, host: str) -> str | None:
    """Return why a visitor may not use these routes, in a sentence; None: they may.

    Args:
        visit: the visit.
        host: the setting of that name: a name that the user gave this machine is one of its names.
    """
    if not _is_from_here(visit):
        return "This is answered on the machine that the server runs on, and nowhere else."
    names = visit.all("host")
    if len(names) != 1 or not _names_this_machine(names[0], host.lower()):
        return "The Host header does not name this machine: use its address, or localhost."
    if _is_of_another_site(visit, names[0]):
        return "A page of another site may not ask for this."
    return None


def _is_from_here(visit: Visit) -> bool:
    if visit.client is None or any(visit.all(name) for name in _THROUGH_A_PROXY):
        return False
    client = _address(visit.client)
    if client is None:
        return False
    # Whoever talks to an address of this machine from that very address is on it.
    return client.is_loopback or (visit.server is not None and client == _address(visit.server))


def _names_this_machine(name: str, host: str) -> bool:
    """Return whether a Host header holds a name that nobody else can make lead here."""
    found = _HOST.fullmatch(name)
    if found is None:
        return False
    if found[1] is not None:
        return _address(found[1]) is not None
    bare = found[2].removesuffix(".")
    local = bare == "localhost" or bare.endswith(".localhost")
    return local or bare == host or _address(bare) is not None


def _is_of_another_site(visit: Visit, name: str) -> bool:
    if any(site not in ("same-origin", "none") for site in visit.all("sec-fetch-site")):
        return True
    ours = (f"http://{name}", f"https://{name}")
    return any(origin not in ours for origin in visit.all("origin"))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
