"""`mlxbun gc`, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import scan_cache_dir

from tests.core.gc.box import MAIN, OLD, Box, age
from tests.processes import SCRIPT, environ_of, mlxbun, serving
from tests.tiny import make_model


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box.at(tmp_path)


@pytest.fixture
def environ(box: Box) -> dict[str, str]:
    return environ_of(
        box.hub.parent / "user",
        HF_HUB_CACHE=str(box.hub),
        MLXBUN_HOME=str(box.paths.home),
        MLXBUN_CACHE=str(box.paths.cache),
    )


def document(stdout: str) -> Any:
    """Return the one JSON document that was printed."""
    found = json.loads(stdout)
    assert found["schema"] == 1
    return found


def in_terminal(*arguments: str, environ: Mapping[str, str], columns: int = 80) -> list[str]:
    """Return the lines that a terminal shows, without colours."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, *arguments],
        env={**environ, "COLUMNS": str(columns), "TERM": "xterm"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as process:
        os.close(follower)
        shown = b""
        with suppress(OSError):  # the end of a terminal is an error
            while chunk := os.read(leader, 65536):
                shown += chunk
        process.wait(60)
    os.close(leader)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r", "").splitlines()


def test_a_plan_is_shown_and_nothing_deleted(box: Box, environ: dict[str, str]) -> None:
    box.pair()
    (box.repo() / "blobs" / "orphan").write_bytes(b"o" * 1200)
    before = sorted(box.hub.rglob("*"))
    done = mlxbun("gc", environ=environ)
    assert done.returncode == 0
    rows = [re.split(r"  +", line) for line in done.stdout.splitlines()]
    assert rows == [
        ["REPOSITORY", "WHAT", "UNUSED FOR", "FREES"],
        ["org/one", "snapshot 00000000", "40 days", "300 B"],
        ["org/one", "1 orphaned blob", "a moment", "1.2 kB"],
    ]
    assert f"1.5 kB in all, in {box.hub}." in done.stderr
    assert "Nothing was deleted. The same command with --yes deletes it." in done.stderr
    assert sorted(box.hub.rglob("*")) == before


def test_yes_deletes_what_is_shown(box: Box, environ: dict[str, str]) -> None:
    old = box.pair()
    done = mlxbun("gc", "--yes", environ=environ)
    assert (done.returncode, "snapshot 00000000" in done.stdout) == (0, True)
    assert "Freed 300 B." in done.stderr
    assert not old.exists()
    assert not scan_cache_dir(box.hub).warnings
    done = mlxbun("gc", "--yes", environ=environ)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"There is nothing to delete in {box.hub}." in done.stderr


def test_json_tells_the_plan_and_what_became_of_it(box: Box, environ: dict[str, str]) -> None:
    old = box.pair()
    plan = document(mlxbun("gc", "--json", environ=environ).stdout)
    assert (plan["executed"], plan["bytes"]) == (False, 300)
    (item,) = plan["items"]
    assert item == {
        "kind": "snapshot",
        "what": "snapshot 00000000",
        "repo_type": "model",
        "repo_id": "org/one",
        "commit": OLD,
        "paths": [str(old), str(box.blob(b"old" * 100))],
        "bytes": 300,
        "last_used": item["last_used"],
    }
    done = document(mlxbun("gc", "--json", "--yes", environ=environ).stdout)
    assert (done["executed"], done["freed_bytes"], done["deleted"]) == (True, 300, 2)
    assert done["items"][0]["freed_bytes"] == 300
    empty = document(mlxbun("gc", "--json", environ=environ).stdout)
    assert (empty["items"], empty["kept"], empty["bytes"]) == ([], [], 0)


def test_options_choose(box: Box, environ: dict[str, str]) -> None:
    box.pair()
    box.pair("datasets--org--two")
    box.add("a" * 40, {"rare.gguf": b"r" * 7}, days=30)

    def going(*arguments: str) -> list[tuple[str, str]]:
        plan = document(mlxbun("gc", "--json", *arguments, environ=environ).stdout)
        return [(item["repo_id"], item["commit"][:2]) for item in plan["items"]]

    assert going() == [("org/two", "00"), ("org/one", "00")]
    assert going("org/one") == [("org/one", "00")]
    assert going("org/one", "--unique") == [("org/one", "aa"), ("org/one", "00")]
    assert going("--keep", "1") == [("org/one", "00")]
    assert going("--older-than", "35d") == [("org/two", "00"), ("org/one", "00")]
    assert going("--older-than", "6w") == []
    assert going("--older-than", "36h", "datasets/") == [("org/two", "00")]


def test_what_stays_is_told_with_its_reason(box: Box, environ: dict[str, str]) -> None:
    box.add("a" * 40, {"rare.gguf": b"r"}, days=30)
    box.add(MAIN, {"config.json": b"{}"}, refs=["main"])
    said = mlxbun("gc", environ=environ).stderr
    assert "kept: org/one, snapshot aaaaaaaa: no other snapshot has rare.gguf" in said
    assert "--unique deletes snapshots with files that no other one has, too." in said
    for number in range(30):
        box.add(f"{number:02}" + "b" * 38, {"config.json": b"{}"})
    said = mlxbun("gc", "--keep", "30", environ=environ).stderr
    assert said.count("kept: ") == 11
    assert "kept: 20 more; --json lists all of them" in said


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--older-than", "3m"], 2, "--older-than must be an age such as 12h, 30d or 2w"),
        (["--older-than", ""], 2, "--older-than must be an age"),
        (["--keep", "-1"], 2, "--keep"),
        (["nothing-like-it"], 3, "has 'nothing-like-it' in its name."),
    ],
)
def test_mistakes(
    box: Box, environ: dict[str, str], arguments: list[str], code: int, sentence: str
) -> None:
    box.pair()
    done = mlxbun("gc", *arguments, environ=environ)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr


def test_without_a_cache(box: Box, environ: dict[str, str]) -> None:
    done = mlxbun("gc", "--yes", environ=environ)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"There is no cache in {box.hub}." in done.stderr
    card = box.paths.cache / "tokenizers" / ("a" * 40 + ".json")
    card.parent.mkdir(parents=True)
    card.write_text("{}")
    age(card, 99)
    assert mlxbun("gc", "--yes", environ=environ).returncode == 0
    assert not card.exists()


def test_a_cache_that_is_a_file(box: Box, environ: dict[str, str]) -> None:
    box.hub.write_text("")
    done = mlxbun("gc", environ=environ)
    assert done.returncode == 1
    assert "cannot be read: Not a directory." in done.stderr


def test_failures_are_told_one_by_one_and_end_in_a_code(box: Box, environ: dict[str, str]) -> None:
    """Root may delete everything but what is marked as immutable."""
    box.pair()
    for name in "ab":
        (box.repo() / "blobs" / name).write_bytes(b"o")
    blobs = box.repo() / "blobs"
    if os.geteuid():
        blobs.chmod(0o555)
    elif subprocess.run(["chattr", "+i", blobs / "a"], check=False).returncode:
        pytest.skip("this disk marks no files")
    try:
        done = mlxbun("--quiet", "gc", "--yes", environ=environ)
    finally:
        blobs.chmod(0o755)
        if not os.geteuid():
            subprocess.run(["chattr", "-i", blobs / "a"], check=True)
    assert done.returncode == 1
    assert f"not deleted {blobs / 'a'}: " in done.stderr
    assert "could not be deleted." in done.stderr


def test_a_snapshot_that_a_server_serves_stays(box: Box, environ: dict[str, str]) -> None:
    """The whole way: a server on a superseded revision, which nothing else protects."""
    model = make_model(box.hub.parent / "model")
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    old = box.add(OLD, {**files, "README.md": b"old"})
    box.add(MAIN, {**files, "README.md": b"new"}, refs=["main"])
    log = box.hub.parent / "log"
    with serving("org/one@0000000", environ=environ, log=log) as server:
        done = mlxbun("gc", "--yes", environ=environ)
        assert (done.returncode, done.stdout) == (0, "")
        assert re.search(rf"the server \d+ at {server.url} serves it", done.stderr)
        assert server.ask("x", max_tokens=1)["choices"]
        server.stop()
    assert (old / "README.md").read_bytes() == b"old"
    assert "snapshot 00000000" in mlxbun("gc", "--yes", environ=environ).stdout
    assert not old.exists()


def test_a_terminal_of_eighty_columns(box: Box, environ: dict[str, str]) -> None:
    box.pair("models--mlx-community--Meta-Llama-3.1-8B-Instruct-4bit")
    name = "models--org--one"
    for number in range(3):
        box.add(
            str(number) * 40, {"config.json": b"{}" + b" " * number}, repo=name, days=9 - number
        )
    (box.repo(name) / "blobs" / "x.incomplete").write_bytes(b"x" * 5000)
    age(box.repo(name) / "blobs" / "x.incomplete", 3)
    lines = in_terminal("gc", environ=environ)
    assert lines[:8] == [
        "REPOSITORY                              WHAT                   UNUSED FOR  FREES",
        "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit",
        "                                        snapshot 00000000      40 days     300 B",
        "org/one                                 snapshot 11111111      8 days        3 B",
        "                                        snapshot 00000000      9 days        2 B",
        "                                        1 incomplete download  3 days       5 kB",
        f"5.3 kB in all, in {box.hub}.",
        "Nothing was deleted. The same command with --yes deletes it.",
    ]


def test_names_move_no_cursor(box: Box, environ: dict[str, str]) -> None:
    name = os.fsdecode(b"models--org--\x1b[31m\xff")
    box.pair(name)
    done = mlxbun("gc", environ=environ)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    (item,) = json.loads(mlxbun("gc", "--json", environ=environ).stdout)["items"]
    assert item["repo_id"] == "org/\x1b[31m\N{REPLACEMENT CHARACTER}"
    assert mlxbun("gc", "--yes", environ=environ).returncode == 0
    assert not (box.repo(name) / "snapshots" / OLD).exists()
