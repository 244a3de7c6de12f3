"""The socket that serve listens on, taken before anything slow happens."""

from __future__ import annotations

import errno
import socket

from core.errors import AddressInUse, UsageProblem


def bind(host: str, port: int) -> socket.socket:
    """Take the port, without answering on it yet.

    Args:
        host: a name or an address, IPv4 or IPv6.
        port: 0 takes a free one.

    Raises:
        AddressInUse: somebody listens there.
        UsageProblem: no such host on this machine, or the port is not ours to take.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise UsageProblem(
            f"The host {host!r} has no address: {reason}.",
            hint="Use 127.0.0.1, 0.0.0.0, ::1, or an address of this machine.",
        ) from None
    # `localhost` has both kinds of address; more clients reach the older one.
    family, kind, protocol, _, address = min(found, key=lambda row: row[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as problem:
        listener.close()
        raise _refusal(problem, host, port) from None
    return listener


def listen(listener: socket.socket) -> None:
    """Let connections in.

    Raises:
        AddressInUse: another server took the port between `bind` and now.
    """
    try:
        listener.listen(2048)
    except OSError as problem:
        host, port = listener.getsockname()[:2]
        raise _refusal(problem, host, port) from None


def url(listener: socket.socket) -> str:
    """Return the address for a client on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refusal(problem: OSError, host: str, port: int) -> AddressInUse | UsageProblem:
    if problem.errno == errno.EADDRINUSE:
        return AddressInUse(
            f"Port {port} on {host} is taken.",
            hint="Stop what listens there, or choose another with --port; --port 0 finds one.",
        )
    return UsageProblem(
        f"The server cannot listen on {host} port {port}: {problem.strerror}.",
        hint="Choose another with --host and --port.",
    )
