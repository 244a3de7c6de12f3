"""Each shell completes, as it would for a user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.completions.conftest import ODD_NAMES, SESSIONS
from tests.completions.shells import (
    SCRIPTS,
    Prompt,
    bash_replies,
    fish_replies,
    needs,
    prompt,
)

QWEN = "mlx-community/Qwen3-4B-4bit"
SMOL = "mlxbun/SmolLM2-135M-Instruct-4bit"

# What is typed, and the line after Tab, in bash and zsh alike.
LINES = [
    ("mlxbun se", "mlxbun serve "),
    ("mlxbun config se", "mlxbun config set "),
    ("mlxbun serve --prompt", "mlxbun serve --prompt-cache "),
    ("mlxbun serve --prefill lat", "mlxbun serve --prefill latency "),
    ("mlxbun serve --prefill=lat", "mlxbun serve --prefill=latency "),
    ("mlxbun ls --sort na", "mlxbun ls --sort name "),
    ("mlxbun ls --sort=na", "mlxbun ls --sort=name "),
    ("mlxbun config set drain", "mlxbun config set drain_timeout "),
    ("mlxbun config set prefill thr", "mlxbun config set prefill throughput "),
    ("mlxbun serve mlxbun/", f"mlxbun serve {SMOL} "),
    ("mlxbun serve smolv", "mlxbun serve other/SmolVLM "),
    ("mlxbun serve smol", "mlxbun serve smol"),  # several: the word stays
    ("mlxbun serve qwen3", "mlxbun serve mlx-community/Qwen3-"),
    (f"mlxbun serve {QWEN}@ma", f"mlxbun serve {QWEN}@main "),
    (f"mlxbun serve {QWEN}@v", f"mlxbun serve {QWEN}@v2/beta "),
    (f"mlxbun serve {QWEN}@bb", f"mlxbun serve {QWEN}@bbbbbbbbbbbb "),
    ("mlxbun serve My\\ Mo", "mlxbun serve My\\ Model "),
    ('mlxbun serve "My Mo', 'mlxbun serve "My Model" '),
    ("mlxbun serve 'My Mo", "mlxbun serve 'My Model' "),
    ("mlxbun serve uml", "mlxbun serve uml\\ äut "),
    ("mlxbun serve it", "mlxbun serve it\\'s\\ \\`x\\` "),
    ("mlxbun serve back", "mlxbun serve back\\\\slash "),
    ("mlxbun serve q", 'mlxbun serve q\\"uote '),
    ("mlxbun serve a!", "mlxbun serve a\\!b "),
    ("mlxbun serve col:", "mlxbun serve col:on "),
    ("mlxbun serve at@", "mlxbun serve at@home "),
    ("mlxbun serve \\$", "mlxbun serve \\$\\(touch\\ pwned\\) "),
    ("mlxbun serve \\\\", "mlxbun serve \\\\\\$\\(touch\\ pwned\\) "),
    ("mlxbun serve '$(", "mlxbun serve '$(touch pwned)' "),
    ("mlxbun serve ./sub", "mlxbun serve ./sub\\ folder/"),
    ("mlxbun serve ./some", "mlxbun serve ./some"),  # a model is no file
    ("mlxbun ls --model-folders su", "mlxbun ls --model-folders sub\\ folder/"),
    ("mlxbun ls --model-folders=su", "mlxbun ls --model-folders=sub\\ folder/"),
    ("mlxbun upload so", "mlxbun upload some\\ file "),
    ("mlxbun bench --plot=so", "mlxbun bench --plot=some\\ file "),
    ("mlxbun serve --port so", "mlxbun serve --port so"),  # a number is no file either
    ("mlxbun chat --resume sky", f"mlxbun chat --resume {SESSIONS[1]} "),
    ("mlxbun generate My\\ Model so", "mlxbun generate My\\ Model so"),  # a prompt
    ("mlxbun bench hi", "mlxbun bench history "),
    ("mlxbun bench history mlxbun", f"mlxbun bench history {SMOL} "),
    ("mlxbun download sta", "mlxbun download starter "),
    ("mlxbun download other", "mlxbun download other/SmolVLM "),
    ("mlxbun config set show", "mlxbun config set show"),
    ("./mlxbun se", "./mlxbun serve "),
    ("mlxbun serve My\\ Model --pre", "mlxbun serve My\\ Model --prefill "),
    ("mlxbun ps extra --j", "mlxbun ps extra --json "),
]


@pytest.fixture(scope="module")
def bash(environ: Mapping[str, str], folder: Path) -> Iterator[Prompt]:
    needs("bash")
    start = f"source '{SCRIPTS / 'mlxbun.bash'}'\n"
    with prompt("bash", environ=environ, folder=folder, start=start) as ready:
        yield ready


@pytest.fixture(scope="module")
def zsh(environ: Mapping[str, str], folder: Path) -> Iterator[Prompt]:
    needs("zsh")
    start = f"source '{SCRIPTS / '_mlxbun'}'\n"
    with prompt("zsh", environ=environ, folder=folder, start=start) as ready:
        yield ready


@pytest.mark.parametrize(("typed", "becomes"), LINES, ids=[typed for typed, _ in LINES])
def test_bash_completes_the_line(bash: Prompt, folder: Path, typed: str, becomes: str) -> None:
    assert bash.line_after(typed) == becomes
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize(("typed", "becomes"), LINES, ids=[typed for typed, _ in LINES])
def test_zsh_completes_the_line(zsh: Prompt, folder: Path, typed: str, becomes: str) -> None:
    assert zsh.line_after(typed) == becomes
    assert not (folder / "pwned").exists()


def test_zsh_shows_what_things_mean(zsh: Prompt) -> None:
    shown = zsh.listed_after("mlxbun config set p", "prefill ")
    assert "Port that serve listens on" in shown
    assert "\x1b[3" not in shown  # no colours


def test_zsh_completes_from_a_folder_in_fpath(environ: Mapping[str, str], folder: Path) -> None:
    needs("zsh")
    # Before compinit, as people have it.
    start = f"fpath=('{SCRIPTS}' $fpath)\ncompinit -D -i\n"
    with prompt("zsh", environ=environ, folder=folder, start=start) as ready:
        assert ready.line_after("mlxbun se") == "mlxbun serve "
        assert ready.line_after("mlxbun ls --sort na") == "mlxbun ls --sort name "


@pytest.mark.parametrize(
    ("words", "replies"),
    [
        (["mlxbun", "s"], ["serve", "stop"]),
        (["mlxbun", "serve", "--pr"], ["--prompt-cache", "--prefill"]),
        (["mlxbun", "serve", "--prefill", ""], ["latency", "throughput"]),
        (["mlxbun", "ls", "--sort", ""], ["name", "size", "params", "date", "context"]),
        (["mlxbun", "config", "set", "dequantize", ""], ["auto", "on", "off"]),
        (["mlxbun", "chat", "--resume", ""], [*reversed(SESSIONS)]),
        (["mlxbun", "serve", "qwen3-8"], ["mlx-community/Qwen3-8B-4bit"]),
        (["mlxbun", "serve", "/"], []),
    ],
    ids=" ".join,
)
def test_the_function_of_bash(
    environ: Mapping[str, str], words: list[str], replies: list[str]
) -> None:
    needs("bash")
    assert bash_replies(words, environ=environ) == replies


def test_a_bash_without_compopt_completes_too(environ: Mapping[str, str], folder: Path) -> None:
    """As the one of macOS, 3.2."""
    needs("bash")
    start = f"enable -n compopt\nsource '{SCRIPTS / 'mlxbun.bash'}'\n"
    with prompt("bash", environ=environ, folder=folder, start=start) as ready:
        assert ready.line_after("mlxbun serve My\\ Mo") == "mlxbun serve My\\ Model "
        assert ready.line_after("mlxbun serve ./sub") == "mlxbun serve ./sub\\ folder/"


def test_bash_offers_what_is_there(environ: Mapping[str, str], server: int) -> None:
    needs("bash")
    models = bash_replies(["mlxbun", "serve", ""], environ=environ)
    assert {QWEN, SMOL, "My\\ Model"} <= set(models)
    assert len([name for name in models if "/" not in name]) == len(ODD_NAMES)
    stopped = bash_replies(["mlxbun", "stop", ""], environ=environ)
    assert stopped == ["9123", str(server)]


@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("mlxbun se", {"serve": "Serve a model over HTTP, with an OpenAI-compatible API."}),
        ("mlxbun ls --all", {"--all-revisions": "Every snapshot, with its commit and refs."}),
        ("mlxbun ls --sort=na", {"--sort=name": ""}),
        ("mlxbun ls --sort na", {"name": ""}),
        ("mlxbun serve mlxbun/", {SMOL: ""}),
        ("mlxbun serve My\\ Mo", {"My Model": ""}),
        ('mlxbun serve "My Mo', {"My Model": ""}),
        (f"mlxbun serve {QWEN}@v", {f"{QWEN}@v2/beta": "bbbbbbbbbbbb"}),
        ("mlxbun serve \\$", {"$(touch pwned)": ""}),
        ("mlxbun config set prompt", {"prompt_cache": None}),
        ("mlxbun chat --resume sky", {SESSIONS[1]: ""}),
        ("mlxbun serve ./sub", {"./sub folder/": None}),
        ("mlxbun serve ./some", {}),
        ("mlxbun upload so", {"some file": None}),
        ("mlxbun bench --plot=so", {"--plot=some file": None}),
        ("mlxbun ls --model-folders su", {"sub folder/": None}),
        ("mlxbun serve --port so", {}),
    ],
)
def test_fish_offers(
    environ: Mapping[str, str], folder: Path, line: str, replies: dict[str, str | None]
) -> None:
    """None: fish describes it in its own words."""
    needs("fish")
    offered = fish_replies(line, environ=environ, folder=folder)
    assert list(offered) == list(replies)
    assert [told for value, told in offered.items() if replies[value] is not None] == [
        told for told in replies.values() if told is not None
    ]
    assert not (folder / "pwned").exists()


def test_fish_tells_models_of_servers(environ: Mapping[str, str], server: int) -> None:
    needs("fish")
    offered = fish_replies("mlxbun stop ", environ=environ)
    assert offered == {"9123": f"{SMOL} (port)", str(server): f"{SMOL} (pid)"}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_without_mlxbun_offers_nothing(
    environ: Mapping[str, str], tmp_path: Path, shell: str
) -> None:
    needs(shell)
    lost = {**environ, "PATH": "/usr/bin:/bin"}
    if shell == "bash":
        assert bash_replies(["mlxbun", "se"], environ=lost, folder=tmp_path) == []
    else:
        assert fish_replies("mlxbun se", environ=lost, folder=tmp_path) == {}
