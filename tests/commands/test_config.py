"""`mlxbun config` as a process: values with their sources, set and unset, and broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import mlxbun

Environ = dict[str, str]


def _setting(environ: Environ, name: str) -> tuple[Any, str]:
    """Return a setting's value and source."""
    done = mlxbun("config", "show", "--json", environ=environ)
    assert done.returncode == 0
    rows = json.loads(done.stdout)["settings"]
    return next((r["value"], r["source"]) for r in rows if r["name"] == name)


def _set(environ: Environ, *arguments: str) -> None:
    done = mlxbun("config", "set", *arguments, environ=environ)
    assert (done.returncode, done.stdout) == (0, "")
    assert arguments[0] in done.stderr


def test_each_layer_wins_over_the_one_before(fresh_environ: Environ) -> None:
    assert _setting(fresh_environ, "port") == (8080, "default")
    _set(fresh_environ, "port", "9000")
    assert _setting(fresh_environ, "port") == (9000, "config file")
    assert _setting({**fresh_environ, "MLXBUN_PORT": "9001"}, "port") == (9001, "environment")
    _set(fresh_environ, "port")
    assert _setting(fresh_environ, "port") == (8080, "default")


def test_the_table_names_the_config_file_beside_the_data(fresh_environ: Environ) -> None:
    done = mlxbun("config", "show", environ=fresh_environ)
    assert done.stdout.splitlines()[0].split() == ["SETTING", "VALUE", "SOURCE", "MEANING"]
    assert done.stderr == f"config file: {fresh_environ['HOME']}/.mlxbun/config.toml\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("port", "99999"), "from 0 to 65535"),
        (("port", "many"), "port must be"),
        (("no_such_setting", "1"), "no_such_setting"),
        (("port",), "port is not set"),
    ],
)
def test_what_cannot_be_set(fresh_environ: Environ, arguments: tuple[str, ...], said: str) -> None:
    done = mlxbun("config", "set", *arguments, environ=fresh_environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not Path(fresh_environ["HOME"], ".mlxbun").exists()


@pytest.mark.parametrize(
    "command", ["config show", "config set port 1", "generate hello", "serve --port 0"]
)
@pytest.mark.parametrize(("content", "code"), [("port = = 3", 1), ("port = 'many'", 2)])
def test_a_broken_file_is_named(
    fresh_environ: Environ, command: str, content: str, code: int
) -> None:
    config = Path(fresh_environ["HOME"], ".mlxbun", "config.toml")
    config.parent.mkdir()
    config.write_text(content)
    done = mlxbun(*command.split(), environ=fresh_environ)
    if command.startswith("config set") and code == 2:
        assert done.returncode == 0  # that is how it is mended
        return
    assert (done.returncode, done.stdout) == (code, "")
    assert "config file" in done.stderr
    assert config.read_text() == content
