"""Who may use the routes under /api: a table of visits."""

from __future__ import annotations

import pytest

from commands.serve.visitors import Visit, refusal

ELSEWHERE = "This is answered on the machine"
NAME = "The Host header"
SITE = "A page of another site"


def _visit(
    client: str | None = "127.0.0.1", server: str | None = "127.0.0.1", **headers: str
) -> Visit:
    told = {"host": "127.0.0.1:8080", **headers}
    named = [(name.replace("_", "-"), value) for name, value in told.items()]
    return Visit(client=client, server=server, headers=named)


@pytest.mark.parametrize(
    "visit",
    [
        _visit(),
        _visit("::1", "::1", host="[::1]:8080"),
        _visit("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        _visit("127.0.0.2"),
        _visit("192.168.1.5", "192.168.1.5", host="192.168.1.5:8080"),
        _visit("fe80::1%eth0", "fe80::1%eth0", host="[fe80::1]:8080"),
        _visit(host="localhost:8080"),
        _visit(host="LOCALHOST"),
        _visit(host="localhost.:8080"),
        _visit(host="app.localhost:8080"),
        _visit(host="my-mac.local:8080"),
        _visit(origin="http://127.0.0.1:8080", sec_fetch_site="same-origin"),
        _visit(origin="HTTP://LOCALHOST:8080", host="localhost:8080"),
        _visit(sec_fetch_site="none"),
    ],
)
def test_whoever_sits_here_is_let_in(visit: Visit) -> None:
    assert refusal(visit, host="My-Mac.local") is None


@pytest.mark.parametrize(
    ("visit", "why"),
    [
        (_visit("192.168.1.7", "192.168.1.5"), ELSEWHERE),
        (_visit("::ffff:10.0.0.1", "::ffff:10.0.0.2"), ELSEWHERE),
        (_visit("fe80::2", "fe80::1"), ELSEWHERE),
        (_visit(None), ELSEWHERE),
        (_visit("somewhere"), ELSEWHERE),
        (_visit("10.0.0.7", None), ELSEWHERE),
        (_visit(x_forwarded_for="10.0.0.7"), ELSEWHERE),
        (_visit(x_forwarded_for="127.0.0.1"), ELSEWHERE),
        (_visit(forwarded="for=10.0.0.7"), ELSEWHERE),
        (_visit(x_real_ip="10.0.0.7"), ELSEWHERE),
        (_visit(host="evil.example:8080"), NAME),
        (_visit(host="localhost.evil.example"), NAME),
        (_visit(host="127.0.0.1.evil.example"), NAME),
        (_visit(host="notlocalhost"), NAME),
        (_visit(host=""), NAME),
        (_visit(host="user@localhost"), NAME),
        (_visit(host="localhost/evil.example"), NAME),
        (_visit(host="localhost:8080:9090"), NAME),
        (_visit(host="[::1"), NAME),
        (_visit(host="[zz]"), NAME),
        (_visit(host="127.0.0.1\nevil.example"), NAME),
        (_visit(host="2130706433"), NAME),
        (Visit(client="127.0.0.1", server="127.0.0.1", headers=[]), NAME),
        (
            Visit(
                client="127.0.0.1",
                server="127.0.0.1",
                headers=[("host", "localhost"), ("host", "evil.example")],
            ),
            NAME,
        ),
        (_visit(origin="https://evil.example"), SITE),
        (_visit(origin="null"), SITE),
        (_visit(origin="http://127.0.0.1:3000"), SITE),
        (_visit(origin="http://localhost:8080"), SITE),
        (_visit(origin="http://127.0.0.1:8080.evil.example"), SITE),
        (_visit(origin="file://"), SITE),
        (_visit(origin=""), SITE),
        (_visit(sec_fetch_site="cross-site"), SITE),
        (_visit(sec_fetch_site="same-site"), SITE),
        (_visit(origin="http://127.0.0.1:8080", sec_fetch_site="cross-site"), SITE),
    ],
)
def test_nobody_else_is(visit: Visit, why: str) -> None:
    told = refusal(visit, host="127.0.0.1")
    assert told is not None
    assert told.startswith(why)


def test_a_name_that_this_machine_was_not_given_is_foreign() -> None:
    assert refusal(_visit(host="my-mac.local"), host="0.0.0.0") is not None
