"""The door as a process: version, help, mistakes, and a Ctrl-C that is never lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mlxbun_cli.main import _raise_interrupts_again
from tests.processes import environ_of, mlxbun


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return environ_of(tmp_path / "home")


def test_the_version(environ: dict[str, str]) -> None:
    done = mlxbun("--version", environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"mlxbun {version('mlxbun')}\n"


@pytest.mark.parametrize("arguments", [(), ("config",)])
def test_no_command_shows_the_help_and_nothing_else(
    environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    done = mlxbun(*arguments, environ=environ)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: mlxbun" in done.stdout


@pytest.mark.parametrize("arguments", [("no-such-command",), ("ls", "--no-such-option")])
def test_a_mistake_is_named(environ: dict[str, str], arguments: tuple[str, ...]) -> None:
    done = mlxbun(*arguments, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[-1] in done.stderr
    assert "mlxbun --help" in done.stderr


@pytest.mark.parametrize("arguments", [("ls", "--sort", "x"), ("gc", "--keep", "x")])
def test_a_wrong_value_is_a_sentence(environ: dict[str, str], arguments: tuple[str, ...]) -> None:
    done = mlxbun(*arguments, environ=environ)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith(".")
    assert "Value error" not in done.stderr


def test_ctrl_c_while_the_app_is_imported() -> None:
    program = """
import mlxbun_cli.main as door
def run(arguments):
    raise KeyboardInterrupt
door.run = run
door.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_that_a_destructor_swallowed_comes_again() -> None:
    hook = _raise_interrupts_again(lambda _: pytest.fail("it was told instead"))

    def work_on_after_a_swallowed_one() -> None:
        hook(_dropped(KeyboardInterrupt))
        threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt):
        work_on_after_a_swallowed_one()


def test_other_dropped_exceptions_are_told_as_ever() -> None:
    told: list[Any] = []
    dropped = _dropped(ValueError)
    _raise_interrupts_again(told.append)(dropped)
    assert told == [dropped]


def _dropped(kind: type[BaseException]) -> sys.UnraisableHookArgs:
    return cast("sys.UnraisableHookArgs", SimpleNamespace(exc_type=kind))
