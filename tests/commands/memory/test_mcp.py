"""`mlxbun memory mcp` as agents start it: a process with JSON-RPC on its pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from core.memory.pages import RESULT_CHARACTERS
from core.memory.tools import TOOLS
from tests.commands.memory.vaults import write_vault
from tests.processes import SCRIPT, mlxbun

Environ = dict[str, str]
SERVER = (SCRIPT, "memory", "mcp")
_CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
HELLO = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _CLIENT}).encode()
READY = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()


def _with_client(
    environ: Environ, use: Callable[[Client], Awaitable[None]], *arguments: str
) -> None:
    """Run a test with the SDK's own client."""
    server = StdioServerParameters(command=SCRIPT, args=["memory", "mcp", *arguments], env=environ)

    async def run() -> None:
        with anyio.fail_after(60):
            async with Client(stdio_client(server)) as client:
                await use(client)

    anyio.run(run)


def _text(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


def test_the_tools_are_listed_as_read_only(fresh_environ: Environ, vault: Path) -> None:
    async def use(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
        for tool in listed:
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is True
            assert tool.description
            assert tool.input_schema["type"] == "object"

    _with_client(fresh_environ, use)


def test_the_tools_answer_from_the_vault(fresh_environ: Environ, vault: Path) -> None:
    async def use(client: Client) -> None:
        found = await client.call_tool("memory_search", {"query": "東京"})
        assert "## 東京 (" in _text(found)
        read = _text(await client.call_tool("memory_read", {"name": "Lyon"}))
        assert "[memory data" in read
        assert "source: articles/Lyon.md; date: 20" in read
        assert "A city." in read
        (vault / "articles" / "Lyon.md").write_text("# Lyon\n\nNow a village.\n" * 1000)
        again = _text(await client.call_tool("memory_read", {"name": "Lyon"}))
        assert "village" in again
        assert len(again) <= RESULT_CHARACTERS
        assert 'Call again with "page": 2' in again
        wrong = await client.call_tool("memory_read", {"nam": "Lyon"})
        assert "Arguments: name, page." in _text(wrong)

    _with_client(fresh_environ, use)


def test_a_missing_vault_is_an_answer(fresh_environ: Environ, tmp_path: Path) -> None:
    wiki = tmp_path / "other"

    async def use(client: Client) -> None:
        assert "mlxbun memory init" in _text(await client.call_tool("memory_list", {}))
        write_vault(wiki)
        assert "- Lyon" in _text(await client.call_tool("memory_list", {}))

    _with_client(fresh_environ, use, "--vault", str(wiki))


def _talk(
    environ: Environ, lines: list[bytes], *, until: int, command: tuple[str, ...] = SERVER
) -> tuple[dict[int, Any], str]:
    """Return answers by id, and stderr; the input ends when the answer `until` is there."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"".join(line + b"\n" for line in lines))
        server.stdin.flush()
        answers: dict[int, Any] = {}
        while until not in answers:
            answer = json.loads(server.stdout.readline())
            assert answer["jsonrpc"] == "2.0"
            answers[answer["id"]] = answer
        rest, said = server.communicate(b"no end", timeout=60)
        assert rest == b""
        assert server.returncode == 0
    assert b"Traceback" not in said
    return answers, said.decode()


def _call(number: int, name: str, **arguments: Any) -> bytes:
    params = {"name": name, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(call).encode()


def test_rubbish_is_passed_over(fresh_environ: Environ, vault: Path) -> None:
    unknown = json.dumps({"jsonrpc": "2.0", "id": 3, "method": "no/such"}).encode()
    rubbish = [b"rubbish", b"", b"\xff\xfe\x00", b"[1, 2]", b'{"jsonrpc": "2.0"}', b"{" * 5000]
    good = [HELLO, READY, unknown, *rubbish, _call(2, "memory_list")]
    answers, _ = _talk(fresh_environ, [*rubbish, *good], until=2)
    assert "- Lyon" in answers[2]["result"]["content"][0]["text"]
    assert answers[3]["error"]["code"] == -32601


def test_the_end_of_the_input_ends_it(fresh_environ: Environ) -> None:
    done = mlxbun("memory", "mcp", environ=fresh_environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_the_middle(fresh_environ: Environ, number: signal.Signals) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        SERVER, env=fresh_environ, stdin=pipe, stdout=pipe, stderr=pipe
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(HELLO + b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(number)
        assert server.wait(20) == -number
        assert server.stdout.read() == b""


def test_without_the_extra_the_command_says_what_to_install(
    fresh_environ: Environ, tmp_path: Path
) -> None:
    program = (
        "import sys, importlib.util as util; real = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'mcp' else real(name, *more)\n"
        "from mlxbun_cli.main import main; sys.argv = ['mlxbun', 'memory', 'mcp']; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=fresh_environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr == (
        "mlxbun: The MCP server needs the Python package mcp, which is not installed.\n"
        "  Install it: `pip install 'mlxbun[mcp]'`.\n"
    )


def test_it_starts_without_mlx(fresh_environ: Environ, vault: Path) -> None:
    program = (
        "import sys, atexit; from mlxbun_cli.main import main\n"
        "atexit.register(lambda: print('mlx' in sys.modules, file=sys.stderr))\n"
        "sys.argv = ['mlxbun', 'memory', 'mcp']; sys.exit(main())"
    )
    command = (sys.executable, "-c", program)
    lines = [HELLO, READY, _call(2, "memory_search", query="lyon")]
    answers, said = _talk(fresh_environ, lines, until=2, command=command)
    assert "Ada Lovelace" in answers[2]["result"]["content"][0]["text"]
    assert said == "False\n"


def test_help_needs_no_extra(fresh_environ: Environ) -> None:
    assert "over MCP" in mlxbun("memory", "mcp", "--help", environ=fresh_environ).stdout
