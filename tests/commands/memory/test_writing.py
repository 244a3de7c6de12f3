"""The verbs that write, from `init` to `forget --purge`, as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.paths import Paths
from mlxbun_cli.completion.command import complete
from tests.commands.memory.vaults import CHAT, add_chat, programs
from tests.forks import mlxbun
from tests.processes import SCRIPT

Environ = dict[str, str]


class Desk:
    """A home with a vault that was set up, and one chat."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.paths = Paths.from_environ(environ)
        add_chat(self.paths, *CHAT)
        self.run("init")

    @property
    def vault(self) -> Path:
        return self.paths.wiki

    def run(self, *words: str, code: int = 0, path: str = "") -> subprocess.CompletedProcess[str]:
        done = mlxbun("memory", *words, environ=self.environ | ({"PATH": path} if path else {}))
        assert done.returncode == code, done.stderr
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        """Return the document, or the last line."""
        out = self.run(*words, "--json", code=code).stdout
        try:
            return json.loads(out)
        except ValueError:
            return json.loads(out.splitlines()[-1])

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.vault, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def state(self) -> tuple[str, str]:
        """Return the commit, and what differs from it."""
        return self.git("rev-parse", "HEAD"), self.git("status", "--porcelain")

    def articles(self) -> list[str]:
        names: list[str] = self.json("list")["articles"]
        return names

    def holds(self, words: str) -> list[str]:
        """Return the files of vault and caches in which words stand, history aside."""
        return [
            str(path)
            for root in (self.vault, self.paths.memory_folder)
            for path in root.rglob("*")
            if path.is_file() and ".git/objects" not in str(path)
            and words.encode() in path.read_bytes()
        ]  # fmt: skip


@pytest.fixture
def desk(fresh_environ: Environ) -> Desk:
    return Desk(fresh_environ)


def test_a_vault_is_set_up_once(desk: Desk) -> None:
    before = desk.state()
    done = desk.run("init")
    assert (done.stdout, done.stderr) == (
        f"{desk.vault}\n",
        "The vault exists already; nothing was missing.\n",
    )
    assert desk.json("init")["created"] == []
    assert desk.state() == before == (before[0], "")


def test_notes_become_articles(fresh_environ: Environ, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "Heron.md").write_text("# Heron\n\nA bird.\n")
    other = str(tmp_path / "vault")
    words = ("memory", "init", "--vault", other, "--from", str(tmp_path / "notes"), "--json")
    done = mlxbun(*words, environ=fresh_environ)
    assert json.loads(done.stdout)["imported"] == ["Heron"]
    read = mlxbun("memory", "read", "heron", "--vault", other, environ=fresh_environ)
    assert read.stdout == "# Heron\n\nA bird.\n"


def test_from_a_chat_to_an_article_and_back(desk: Desk) -> None:
    assert desk.json("ingest")["new"] == 1
    planned = desk.json("synthesize", "--dry-run")
    assert (planned["conversations"], planned["commit"]) == (1, None)
    assert desk.articles() == []
    done = desk.json("synthesize", "--model", "rules")
    assert {"Ana", "User"} <= set(done["created"])
    head, dirty = desk.state()
    assert (done["commit"], dirty) == (head, "")
    again = desk.run("synthesize", "--model", "rules")
    assert (again.stdout, again.stderr.splitlines()[-1]) == ("", "Nothing new to synthesize.")

    (commit,) = desk.json("history", "Ana")["commits"]
    assert (commit["hash"], commit["run"], commit["ours"]) == (head, done["run"], True)
    assert desk.json("diff", "Ana", head[:8])["commit"]["hash"] == head
    assert desk.run("diff", "Ana").stdout.startswith("diff --git a/articles/Ana.md")
    lines = desk.json("blame", "Ana")["lines"]
    assert "\n".join(line["text"] for line in lines) + "\n" == desk.run("read", "Ana").stdout
    assert {line["commit"]["run"] for line in lines} == {done["run"]}
    (reason,) = desk.json("why", "Ana works at Bluebird.")["sentences"]
    (cited,) = reason["cited"]
    assert (reason["commit"]["hash"], cited["quoted"]) == (head, True)
    assert cited["turn"] == CHAT[0]
    assert cited["quote"] in CHAT[0]
    assert cited["source"].startswith("session:")
    today = commit["date"][:10]
    old = desk.json("read", "Ana", "--as-of", today)
    assert (old["commit"], old["as_of"]) == (head, today)
    desk.run("read", "Ana", "--as-of", "2001-01-01", code=3)
    desk.run("read", "Ana", "--as-of", "yesterday", code=2)

    assert desk.json("revert", done["run"], "--dry-run")["commit"] is None
    assert desk.state() == (head, "")
    undone = desk.json("revert", done["run"])
    assert [each["hash"] for each in undone["undone"]] == [head]
    assert desk.articles() == []
    assert desk.git("rev-parse", "HEAD~1") == head
    assert len(desk.json("history", "Ana")["commits"]) == 2  # also of what was deleted
    assert desk.json("revert", done["run"])["already"] is True
    assert desk.json("synthesize", "--model", "rules")["commit"] is None


def test_what_is_forgotten_is_gone(desk: Desk) -> None:
    desk.run("synthesize", "--model", "rules")
    before = desk.state()
    shown = desk.run("forget", "Bluebird", "--source")
    assert "articles/Ana.md" in shown.stdout
    assert shown.stderr.endswith("Nothing was removed. The same command with --yes does it.\n")
    assert desk.json("forget", "Bluebird", "--purge", "--dry-run")["done"] is False
    assert desk.state() == before
    assert desk.holds("Bluebird")
    done = desk.json("forget", "Bluebird", "--source", "--purge", "--yes")
    assert (done["done"], done["rewritten_commits"] > 1) == (True, True)
    assert done["elsewhere"]
    assert desk.holds("Bluebird") == []
    assert "Bluebird" not in desk.git("log", "-p", "--all")
    desk.run("ingest")
    desk.run("synthesize", "--model", "rules")
    assert desk.holds("Bluebird") == []
    assert "Ana" in desk.articles()
    desk.run("forget", "Bluebird", code=3)
    desk.run("forget", "ana", "--yes")
    assert "Ana" not in desk.articles()


def test_a_run_is_reviewed_sentence_by_sentence(desk: Desk) -> None:
    assert desk.run("review").stderr == "No run waits for a review.\n"
    before = desk.state()
    done = desk.json("synthesize", "--model", "rules", "--review")
    assert desk.state() == before
    (waiting,) = desk.json("review")["runs"]
    assert (waiting["run"], waiting["branch"]) == (done["run"], done["branch"])
    offered = complete("fish", ("memory", "review", ""), desk.environ)[1:]
    assert [line.split("\t")[0] for line in offered] == [done["run"]]
    items = desk.json("review", done["run"])["items"]
    (wanted,) = (item["number"] for item in items if "Bluebird" in item["text"])
    for words in (
        ("--accept", str(wanted)),  # the others are not decided
        ("--accept", "rest", "--reject", "rest"),
        ("--accept", "all", "--reject", str(wanted)),
        ("--accept", "0"),
        ("--accept", "one"),
    ):
        desk.run("review", done["run"], *words, code=2)
    assert desk.state() == before
    taken = desk.json("review", done["run"], "--accept", str(wanted), "--reject", "rest")
    assert (len(taken["accepted"]), len(taken["rejected"])) == (1, len(items) - 1)
    assert "Ana works at Bluebird." in desk.run("read", "Ana").stdout
    assert "Porto" not in desk.run("read", "Ana").stdout
    assert desk.json("review")["runs"] == []
    assert desk.json("synthesize", "--model", "rules")["commit"] is None


def test_ctrl_c_leaves_the_vault_as_it_was(desk: Desk) -> None:
    for number in range(60):
        add_chat(desk.paths, f"My friend Ana{number} works at Bluebird{number}.")
    before = desk.state()
    command = [SCRIPT, "memory", "synthesize", "--model", "rules"]
    with subprocess.Popen(
        command, env=desk.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("segment:"):
                break
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
    assert running.returncode == 130
    assert "Stopped. The vault is as it was" in said
    assert desk.state() == before
    assert "Ana59" in desk.json("synthesize", "--model", "rules")["created"]


def test_a_vault_is_examined(desk: Desk) -> None:
    desk.run("synthesize", "--model", "rules")
    assert desk.run("doctor", "--strict").stderr == "No problems found.\n"
    with (desk.vault / "articles" / "Ana.md").open("a") as file:
        file.write("\nSee [[Nowhere]].\n")
    found = desk.json("doctor")
    assert found["sound"] is False
    assert {"broken-link", "uncommitted"} <= {each["kind"] for each in found["findings"]}
    done = desk.run("doctor", "--strict", code=1)
    assert done.stderr.startswith("mlxbun: The vault has ")
    assert "Nowhere" in done.stdout


def test_a_schedule_is_installed_and_removed(desk: Desk, tmp_path: Path) -> None:
    place = programs(tmp_path / "bin")
    desk.run("schedule", "--at", "25:00", code=2, path=place)
    desk.run("schedule", "--at", "03:30", path=place)
    table = Path(desk.environ["HOME"], "crontab").read_text()
    assert "synthesize --scheduled" in table
    status = json.loads(desk.run("status", "--json", path=place).stdout)
    assert (status["schedule"]["at"], status["last_run"]) == ("03:30", None)
    assert status["next_run"]
    assert "synthesize" in desk.run("unschedule", path=place).stdout
    assert desk.run("unschedule", path=place).stderr == "There was no schedule.\n"
    assert desk.run("synthesize", "--scheduled").stderr == "No run is due.\n"
    assert desk.articles() == []


def test_opening_shows_the_path_or_starts_a_program(desk: Desk, tmp_path: Path) -> None:
    desk.run("synthesize", "--model", "rules")
    path = desk.vault / "articles" / "Ana.md"
    assert desk.run("open", "ana", "--print").stdout == f"{path}\n"
    assert desk.run("open", "--print").stdout == f"{desk.vault}\n"
    bin_ = tmp_path / "opener"
    bin_.mkdir()
    refused = desk.run("open", code=3, path=str(bin_))
    assert refused.stderr.endswith("Use --print to show the path instead.\n")
    for name, asked in (("xdg-open", str(path)), ("obsidian", "obsidian://open?path=")):
        program = bin_ / name
        program.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/asked\n')
        program.chmod(0o755)
        desk.run("open", "Ana", path=str(bin_))
        assert (tmp_path / "asked").read_text().startswith(asked)
    (bin_ / "obsidian").write_text("#!/bin/sh\nexit 4\n")
    assert "exit code 4" in desk.run("open", code=1, path=str(bin_)).stderr


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("synthesize", "--since", "May"), "--since must be a day such as 2026-01-31, not 'May'."),
        (("synthesize", "--limit", "0"), "The limit must be at least 1 conversation."),
        (("synthesize", "--budget", "0"), "The budget must be more than 0 minutes."),
        (("review", "--accept", "all"), "--accept and --reject need a run."),
        (
            ("eval", "rules", "--part", "x"),
            "--part must be one of project, other, unseen, not 'x'.",
        ),
        (("history", "Ana", "--limit", "0"), "--limit must be from 1 to 1000."),
    ],
)
def test_wrong_words(fresh_environ: Environ, words: tuple[str, ...], error: str) -> None:
    done = mlxbun("memory", *words, environ=fresh_environ)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"mlxbun: {error}")


def test_without_git_it_is_said_in_a_sentence(fresh_environ: Environ) -> None:
    done = mlxbun("memory", "init", environ={**fresh_environ, "PATH": "/nowhere"})
    assert done.returncode == 5
    assert "git" in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_verbs_that_read_do_not_write(desk: Desk) -> None:
    desk.run("synthesize", "--model", "rules")
    record = desk.vault / "Meta" / "reference.json"
    values = json.loads(record.read_text()) | {"edition": "of an older mlxbun"}
    record.write_text(json.dumps(values))
    desk.git("add", "-A")
    desk.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "older")
    before = desk.state()
    for words in (
        ("status",), ("list",), ("search", "Ana"), ("read", "Ana"), ("toc", "Ana"),
        ("links", "Ana"), ("history",), ("diff", "Ana"), ("blame", "Ana"), ("why", "Bluebird"),
        ("doctor",), ("review",), ("ingest",), ("open", "--print"),
        ("synthesize", "--dry-run"), ("forget", "Bluebird", "--dry-run"),
    ):  # fmt: skip
        desk.run(*words)
        assert desk.state() == before, words
    assert desk.json("status")["reference_outdated"] is True
    desk.run("synthesize", "--model", "rules")
    assert desk.git("log", "-1", "--format=%s") == "Update the documentation in Reference"
    assert desk.json("status")["reference_outdated"] is False


def test_the_history_of_the_whole_vault_has_the_runs(desk: Desk) -> None:
    run = desk.json("synthesize", "--model", "rules")["run"]
    found = desk.json("history")
    assert found["path"] is None
    assert [each["run"] for each in found["commits"]] == [run, None, None]
    assert run in desk.run("history", "--limit", "1").stdout
    assert desk.run("revert", "20200101-000000-abcd", code=3).stderr.endswith(
        "List them with: mlxbun memory history\n"
    )


def test_a_review_that_is_quit_decides_nothing(desk: Desk) -> None:
    run = desk.json("synthesize", "--model", "rules", "--review")["run"]
    assert desk.json("status")["reviews"] == [run]
    before = desk.state()
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, "memory", "review", run],
        env=desk.environ,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asking:
        os.write(ours, b"y\nmaybe\nq\n")
        out, err = asking.communicate()
    os.close(ours)
    os.close(theirs)
    assert (asking.returncode, err.splitlines()[-1]) == (
        0,
        "Nothing was changed; the run still waits.",
    )
    assert [line[:2] for line in out.splitlines() if line[0].isdigit()] == ["1.", "2."]
    assert desk.state() == before
    assert [each["run"] for each in desk.json("review")["runs"]] == [run]


def test_a_folder_without_an_export_is_an_error(desk: Desk, tmp_path: Path) -> None:
    done = desk.run("ingest", "--export", str(tmp_path), code=3)
    assert done.stderr.splitlines()[0] == f"mlxbun: There is no export in {tmp_path}."
    done = desk.run("ingest", "--codex")
    folder = Path(desk.environ["HOME"], ".codex", "sessions")
    wanted = f"Left out: the logs of Codex: there is no folder {folder}"
    assert done.stderr.splitlines()[-1] == wanted


def test_a_schedule_keeps_the_options_of_a_run(desk: Desk, tmp_path: Path) -> None:
    place = programs(tmp_path / "bin")
    notes = tmp_path / "my notes"
    desk.run("schedule", "--notes", str(notes), code=3, path=place)
    desk.run("schedule", "--budget", "0", code=2, path=place)
    notes.mkdir()
    words = ("--model", "rules", "--budget", "30", "--codex", "--notes", str(notes))
    desk.run("schedule", "--at", "03:30", *words, path=place)
    table = Path(desk.environ["HOME"], "crontab").read_text()
    wanted = f"--scheduled --model=rules --budget=30.0 --codex '--notes={notes}'"
    assert wanted in table
    shown = desk.run("status", path=place).stdout
    assert f"--model=rules --budget=30.0 --codex '--notes={notes}'" in shown


def test_a_commit_that_is_none_is_refused_in_the_words_of_the_shell(desk: Desk) -> None:
    done = desk.run("diff", "Ana", "HEAD", code=2)
    assert done.stderr.startswith("mlxbun: COMMIT must be 4 to 40 hexadecimal digits, not 'HEAD'.")


def test_a_quote_from_a_forgotten_message_is_a_note(desk: Desk) -> None:
    """`forget --source` takes the whole message, and leaves what else was written from it."""
    desk.run("synthesize", "--model", "rules")
    desk.run("forget", "Bluebird", "--source", "--yes")
    assert "Lyon" in desk.run("read", "User").stdout  # from the same message
    found = desk.json("doctor", "--strict")
    assert {(each["kind"], each["severity"]) for each in found["findings"]} == {
        ("unchecked-quotes", "note")
    }
