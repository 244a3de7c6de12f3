"""`mlxbun --install-completion` and `--show-completion`."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.errors import MlxbunError, UsageProblem
from core.paths import Paths
from mlxbun_cli.completion import install as installing
from mlxbun_cli.completion.generate import SCRIPT_FOLDER
from mlxbun_cli.completion.install import find_places, find_shell, install, login_remark
from mlxbun_cli.completion.options import with_shell_named
from mlxbun_cli.completion.scripts import FILES
from tests.completions.shells import needs, prompt
from tests.processes import SCRIPT, environ_of, mlxbun

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home of its own, and `mlxbun` on the PATH."""
    environ = environ_of(tmp_path / "home of mine")
    return {**environ, "PATH": f"{Path(SCRIPT).parent}{os.pathsep}{environ['PATH']}"}


def contents(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("shell", SHELLS)
def test_it_says_what_it_did_and_where(own: Mapping[str, str], shell: str) -> None:
    done = mlxbun("--install-completion", shell, environ=own)
    assert (done.returncode, done.stdout) == (0, "")
    places = find_places(shell, environ=own, paths=Paths.from_environ(own))
    assert f"{shell} completion is installed" in done.stderr
    assert str(places.script) in done.stderr
    assert places.script.read_text() == (SCRIPT_FOLDER / FILES[shell]).read_text()
    if places.start_file is not None:
        assert str(places.start_file) in done.stderr
        assert places.start_file.read_text() == places.line + "\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_second_time_changes_nothing(own: Mapping[str, str], shell: str) -> None:
    home = Path(own["HOME"])
    mlxbun("--install-completion", shell, environ=own)
    before = contents(home)
    done = mlxbun("--install-completion", shell, environ=own)
    assert done.returncode == 0
    assert "was there already" in done.stderr
    assert contents(home) == before


@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_script_takes_the_place_of_an_old_one(own: Mapping[str, str], shell: str) -> None:
    paths = Paths.from_environ(own)
    places = install(shell, environ=own, paths=paths).places
    places.script.write_text("old")
    assert install(shell, environ=own, paths=paths).changed
    assert places.script.read_text() == (SCRIPT_FOLDER / FILES[shell]).read_text()
    if places.start_file is not None:
        assert places.start_file.read_text().count(places.line) == 1


@pytest.mark.parametrize("before", [b"", b"alias ll='ls -l'", b"# caf\xe9 \xff\nexport A=1\n"])
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_start_file_keeps_what_it_has(
    own: Mapping[str, str], shell: str, before: bytes, tmp_path: Path
) -> None:
    places = find_places(shell, environ=own, paths=Paths.from_environ(own))
    assert places.start_file is not None
    elsewhere = tmp_path / "dotfiles"
    elsewhere.write_bytes(before)
    elsewhere.chmod(0o600)
    places.start_file.symlink_to(elsewhere)
    install(shell, environ=own, paths=Paths.from_environ(own))
    assert places.start_file.is_symlink()
    assert elsewhere.stat().st_mode & 0o777 == 0o600
    whole = before if not before or before.endswith(b"\n") else before + b"\n"
    assert elsewhere.read_bytes() == whole + places.line.encode() + b"\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_cannot_be_written_is_one_sentence(own: Mapping[str, str], shell: str) -> None:
    places = find_places(shell, environ=own, paths=Paths.from_environ(own))
    (places.start_file or places.script).mkdir(parents=True)
    done = mlxbun("--install-completion", shell, environ=own)
    assert (done.returncode, done.stdout) == (1, "")
    told, hint = done.stderr.splitlines()
    assert str(places.start_file or places.script) in told
    assert "cannot be written: Is a directory." in told
    assert f"--show-completion {shell}" in hint


def test_a_start_file_of_somebody_else(own: Mapping[str, str]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    start = Path(own["HOME"]) / ".zshrc"
    start.write_text("export A=1\n")
    start.chmod(0o400)
    done = mlxbun("--install-completion", "zsh", environ=own)
    assert done.returncode == 1
    assert f"{start} cannot be written: Permission denied." in done.stderr
    assert start.read_text() == "export A=1\n"


def test_a_full_disk_leaves_the_start_file_as_it_was(
    own: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Path(own["HOME"]) / ".bashrc"
    start.write_bytes(b"export A=1\n")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(installing, "_write", lambda *_: False)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MlxbunError, match="bashrc cannot be written: No space left on device"):
        install("bash", environ=own, paths=Paths.from_environ(own))
    assert start.read_bytes() == b"export A=1\n"


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_a_shell_that_is_not_known(own: Mapping[str, str], option: str) -> None:
    done = mlxbun(option, "tcsh", environ=own)
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no completion for 'tcsh'." in done.stderr
    assert contents(Path(own["HOME"])) == {}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_shown_as_it_is(own: Mapping[str, str], shell: str) -> None:
    done = mlxbun("--show-completion", shell, environ=own)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (SCRIPT_FOLDER / FILES[shell]).read_text()
    assert contents(Path(own["HOME"])) == {}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_that_asks_is_meant(own: Mapping[str, str], shell: str) -> None:
    needs(shell)
    needs("ps")
    program = "mlxbun --show-completion; true"  # not its last command: that would take its place
    done = subprocess.run(
        [shell, "-c", program],
        env={**own, "SHELL": "/bin/tcsh"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (SCRIPT_FOLDER / FILES[shell]).read_text()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--show-completion"], ["--show-completion=this"]),
        (["--quiet", "--show-completion"], ["--quiet", "--show-completion=this"]),
        (["--install-completion", "-q"], ["--install-completion=this", "-q"]),
        (["--install-completion", "zsh"], ["--install-completion", "zsh"]),
        (["--install-completion=zsh"], ["--install-completion=zsh"]),
        (["generate", "--", "--show-completion"], ["generate", "--", "--show-completion"]),
        (["ls"], ["ls"]),
        ([], []),
    ],
)
def test_the_shell_may_be_left_out(words: list[str], named: list[str]) -> None:
    assert with_shell_named(words) == named


def test_quiet_is_quiet(own: Mapping[str, str]) -> None:
    done = mlxbun("--quiet", "--install-completion", "zsh", environ=own)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ".zshrc" in contents(Path(own["HOME"]))


def test_else_the_login_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "_ancestors", lambda: iter(["python", "systemd"]))
    assert find_shell({"SHELL": "/opt/homebrew/bin/fish"}) == "fish"
    for environ in ({}, {"SHELL": "/bin/tcsh"}):
        with pytest.raises(UsageProblem, match="cannot be told which shell"):
            find_shell(environ)


def test_bash_on_macos_may_need_more(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}

    def told(shell: str = "bash", system: str = "Darwin") -> str | None:
        return login_remark(shell, environ=environ, system=system)

    assert told(system="Linux") is None
    assert told("zsh") is None
    assert "make one that reads ~/.bashrc" in str(told())
    (tmp_path / ".profile").write_text("export A=1\n")
    assert str(tmp_path / ".profile") in str(told())
    (tmp_path / ".bash_profile").write_text(". ~/.bashrc\n")
    assert told() is None


def test_folders_that_the_user_has_named(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path),
        "ZDOTDIR": str(tmp_path / "z"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "MLXBUN_HOME": str(tmp_path / "ours"),
    }
    paths = Paths.from_environ(environ)
    zsh = find_places("zsh", environ=environ, paths=paths)
    assert zsh.start_file == tmp_path / "z" / ".zshrc"
    assert zsh.script == tmp_path / "ours" / "completions" / "_mlxbun"
    fish = find_places("fish", environ=environ, paths=paths)
    assert fish.script == tmp_path / "config" / "fish" / "completions" / "mlxbun.fish"


def test_bash_completes_once_it_is_installed(own: Mapping[str, str], tmp_path: Path) -> None:
    needs("bash")
    places = install("bash", environ=own, paths=Paths.from_environ(own)).places
    with prompt("bash", environ=own, folder=tmp_path, start=places.line) as ready:
        assert ready.line_after("mlxbun se") == "mlxbun serve "


@pytest.mark.parametrize("compinit", ["", "unfunction compdef\n"], ids=["has-compinit", "has-not"])
def test_zsh_completes_once_it_is_installed(
    own: Mapping[str, str], tmp_path: Path, compinit: str
) -> None:
    needs("zsh")
    places = install("zsh", environ=own, paths=Paths.from_environ(own)).places
    with prompt("zsh", environ=own, folder=tmp_path, start=compinit + places.line) as ready:
        assert ready.line_after("mlxbun se") == "mlxbun serve "


def test_fish_completes_once_it_is_installed(own: Mapping[str, str]) -> None:
    needs("fish")
    install("fish", environ=own, paths=Paths.from_environ(own))
    done = subprocess.run(
        ["fish", "-c", "complete -C 'mlxbun se'"],
        env=dict(own),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("serve\t")
