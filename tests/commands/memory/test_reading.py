"""`mlxbun memory` list, search, read, toc, section and links, as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlxbun_cli.completion.command import complete
from tests.commands.memory.vaults import ADA, write_vault
from tests.forks import mlxbun
from tests.processes import SCRIPT

Environ = dict[str, str]

READERS = (
    ("status",),
    ("list",),
    ("search", "x"),
    ("read", "Ada"),
    ("toc", "Ada"),
    ("section", "Ada", "work"),
    ("links", "Ada"),
)


def _run(environ: Environ, *words: str) -> str:
    done = mlxbun("memory", *words, environ=environ)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def _json(environ: Environ, *words: str) -> Any:
    return json.loads(_run(environ, *words, "--json"))


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_without_a_vault_it_is_said_in_a_sentence(
    fresh_environ: Environ, words: tuple[str, ...]
) -> None:
    done = mlxbun("memory", *words, environ=fresh_environ)
    root = Path(fresh_environ["HOME"]) / ".mlxbun" / "wiki"
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"mlxbun: There is no memory vault at {root}.\n  Create one with: mlxbun memory init\n"
    )
    assert not root.exists()


def test_names_one_a_line(fresh_environ: Environ, vault: Path) -> None:
    assert vault.exists()
    assert _run(fresh_environ, "list").splitlines() == [
        "Ada Lovelace",
        "Lyon",
        "東京",
        "Reference/Engines",
    ]
    assert _json(fresh_environ, "list")["reference"] == ["Reference/Engines"]


def test_which_vault_is_meant(fresh_environ: Environ, vault: Path, tmp_path: Path) -> None:
    assert vault.exists()
    other = write_vault(tmp_path / "other wiki")
    (other / "articles" / "Oslo.md").write_text("# Oslo\n")
    for environ, words in (
        (fresh_environ, ("--vault", str(other))),
        ({**fresh_environ, "MLXBUN_WIKI": str(other)}, ()),
        ({**fresh_environ, "MLXBUN_WIKI": "/nowhere"}, ("--vault", str(other))),
    ):
        assert "Oslo" in _run(environ, "list", *words)
        assert _json(environ, "status", *words)["root"] == str(other)
    assert "Oslo" not in _run(fresh_environ, "list")


def test_a_search_shows_places(fresh_environ: Environ, vault: Path) -> None:
    assert vault.exists()
    found = _run(fresh_environ, "search", "engines").splitlines()
    assert "Ada Lovelace#work:20: She writes about engines.[^1]" in found
    assert "Reference/Engines:3: How engines answer." in found
    only = _json(fresh_environ, "search", "engines", "--scope", "reference", "--limit", "1")
    assert [hit["article"] for hit in only["hits"]] == ["Reference/Engines"]
    done = mlxbun("memory", "search", "C++ AND", environ=fresh_environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "No matches.\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("search", "x", "--scope", "meta"), "--scope must be all, articles or reference"),
        (("search", "x", "--limit", "0"), "--limit must be from 1 to 200."),
        (("search", "x", "--limit", "201"), "--limit must be from 1 to 200."),
        (("read", "../../etc/passwd"), "'../../etc/passwd' is not a valid article name"),
        (("read", "a\nb"), "'a\\nb' is not a valid article name"),
    ],
)
def test_wrong_words(
    fresh_environ: Environ, vault: Path, words: tuple[str, ...], error: str
) -> None:
    assert vault.exists()
    done = mlxbun("memory", *words, environ=fresh_environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"mlxbun: {error}")


def test_an_unknown_name_brings_close_ones(fresh_environ: Environ, vault: Path) -> None:
    assert vault.exists()
    done = mlxbun("memory", "read", "Ada Lovelac", environ=fresh_environ)
    assert done.returncode == 3
    assert done.stderr == (
        "mlxbun: There is no article named 'Ada Lovelac'.\n  Similar names: Ada Lovelace.\n"
    )


def test_through_a_pipe_an_article_is_its_bytes(fresh_environ: Environ, vault: Path) -> None:
    held = b"\xef\xbb\xbf# Bytes\r\n\r\n\x1b[2J\xff\x00 no end"
    (vault / "articles" / "Bytes.md").write_bytes(held)
    for name, expected in (("Bytes", held), ("Countess of Lovelace", ADA.encode())):
        read = subprocess.run(
            [SCRIPT, "memory", "read", name], env=fresh_environ, capture_output=True, check=True
        )
        assert read.stdout == expected


def test_on_a_terminal_nothing_of_an_article_is_obeyed(fresh_environ: Environ, vault: Path) -> None:
    evil = b"# Evil\r\n\x1b]0;title\x07 \x1b[2J\x9b2J \xe2\x80\xae over\rwritten\x08\ttab\n"
    (vault / "articles" / "Evil.md").write_bytes(evil)
    (vault / "articles" / "Evil\x1b[2Jname.md").write_bytes(b"evil\n")
    shown = b"".join(
        _on_terminal(fresh_environ, *words)
        for words in (("read", "Evil"), ("list",), ("search", "evil"), ("toc", "Evil"))
    )
    assert "# Evil\r\n\ufffd]0;title\ufffd \ufffd[2J".encode() in shown
    for obeyed in (b"\x1b", b"\x07", b"\x08", b"\r ", b"\rw", "\u202e".encode(), b"\x9b"):
        assert obeyed not in shown
    assert b"\ttab" in shown


def _on_terminal(environ: Environ, *words: str) -> bytes:
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, "memory", *words],
        env={**environ, "TERM": "dumb"}, stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the last writer has left
                break
            if not chunk:
                break
            shown += chunk
        process.wait(30)
    os.close(ours)
    return shown


def test_sections_by_anchor_and_heading(fresh_environ: Environ, vault: Path) -> None:
    assert vault.exists()
    sections = _json(fresh_environ, "toc", "ada")["sections"]
    assert [each["anchor"] for each in sections] == [
        "work",
        "notes",
        "work-1",
        "see-also",
        "references",
    ]
    lines = ADA.splitlines(keepends=True)
    for each in sections:
        text = _run(fresh_environ, "section", "Ada Lovelace", each["anchor"])
        assert text == "".join(lines[each["start"] - 1 : each["end"]])
    assert _json(fresh_environ, "section", "ada", "See also")["text"].startswith("## See also\n")
    done = mlxbun("memory", "section", "ada", "nowhere", environ=fresh_environ)
    assert done.returncode == 3
    assert done.stderr.endswith("  Sections: work, notes, work-1, see-also, references.\n")


def test_links_both_ways(fresh_environ: Environ, vault: Path) -> None:
    assert vault.exists()
    assert _run(fresh_environ, "links", "Lyon").splitlines() == [
        "-> Ada Lovelace",
        "<- Ada Lovelace",
    ]
    found = _json(fresh_environ, "links", "ada")
    assert (found["outbound"], found["inbound"]) == (["Lyon"], ["Lyon"])
    assert found["unresolved"] == ["Computing"]


def test_tab_offers_articles_and_anchors(fresh_environ: Environ, vault: Path) -> None:
    assert vault.exists()

    def offered(*words: str) -> list[str]:
        return [line.split("\t")[0] for line in complete("fish", words, fresh_environ)[1:]]

    assert offered("memory", "read", "") == ["Ada Lovelace", "Lyon", "東京", "Reference/Engines"]
    assert offered("memory", "links", "L") == ["Lyon"]
    assert offered("memory", "section", "ada", "w") == ["work", "work-1"]
    assert offered("memory", "section", "Nobody", "") == []
    assert offered("memory", "search", "--scope", "a") == ["all", "articles"]
    assert offered("memory", "read", "--vault", "/nowhere", "") == []


@pytest.mark.parametrize("words", ["--help", "read --help", "list", "search x", "links ada"])
def test_reading_imports_no_mlx(fresh_environ: Environ, vault: Path, words: str) -> None:
    assert vault.exists()
    code = (
        "import sys; from mlxbun_cli.main import run;"
        f"run(['memory', *{words.split()!r}]);"
        "sys.exit(any(name.split('.')[0] in ('mlx', 'mlx_lm') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=fresh_environ, check=False)
    assert done.returncode == 0
