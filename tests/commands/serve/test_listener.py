"""The port is taken first, and a port that is not to be had is told in one sentence."""

from __future__ import annotations

import socket

import pytest

from commands.serve.listener import bind, listen, url
from core.errors import AddressInUse, UsageProblem


def test_a_taken_port_is_named() -> None:
    with bind("127.0.0.1", 0) as first:
        listen(first)
        port = first.getsockname()[1]
        with pytest.raises(AddressInUse, match=str(port)) as problem:
            bind("127.0.0.1", port)
        assert "--port" in (problem.value.hint or "")


def test_a_port_can_be_taken_again_after_use() -> None:
    with bind("127.0.0.1", 0) as first:
        listen(first)
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            first.accept()[0].close()
    bind("127.0.0.1", port).close()


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", "http://127.0.0.1:"), ("localhost", "http://127.0.0.1:")]
)
def test_addresses(host: str, shown: str) -> None:
    with bind(host, 0) as listener:
        assert url(listener).startswith(shown)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6() -> None:
    try:
        listener = bind("::1", 0)
    except UsageProblem:
        pytest.skip("no IPv6 loopback here")
    with listener:
        listen(listener)
        assert url(listener).startswith("http://[::1]:")


def test_a_host_that_is_none() -> None:
    with pytest.raises(UsageProblem, match=r"nowhere\.invalid"):
        bind("nowhere.invalid", 0)


def test_an_address_of_another_machine() -> None:
    with pytest.raises(UsageProblem, match=r"192\.0\.2\.1"):
        bind("192.0.2.1", 0)


def test_help_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, commands.serve;"
        "print([m for m in ('litestar', 'uvicorn', 'msgspec', 'mlx', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
