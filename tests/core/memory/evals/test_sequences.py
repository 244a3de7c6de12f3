"""Sequences that try to bring back what the user took out, or to change what holds."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.memory.evals.run import Bench
from core.memory.forget import forget, plan_forget
from core.memory.revert import revert_run
from core.memory.rules.model import RulesModel
from core.memory.stages.ingest import SourceOptions

LYON = ("a", "2025-01-10", "I live in Lyon. My sister Ana Lind lives in Porto.")
ROME = ("b", "2025-06-10", "I live in Rome now.")
OSLO = ("c", "2026-01-10", "I live in Oslo now.")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.create("unseen", tmp_path / "work")


def chat(key: str, day: str | None, text: str) -> dict[str, Any]:
    """Return a conversation of an export, with one message of the user."""
    at = datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp() if day else None
    message = {
        "id": f"{key}-m1",
        "author": {"role": "user"},
        "create_time": at,
        "content": {"content_type": "text", "parts": [text]},
    }
    nodes: dict[str, Any] = {
        f"{key}-m1": {"id": f"{key}-m1", "parent": None, "children": [], "message": message}
    }
    return {
        "conversation_id": key,
        "title": "A chat",
        "create_time": at,
        "current_node": f"{key}-m1",
        "mapping": nodes,
    }


def read(bench: Bench, *chats: tuple[str, str | None, str]) -> str:
    """Read conversations and return all articles in one text."""
    name = "-".join(key for key, *_ in chats)
    file = bench.root.parent / "in" / name / "conversations.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([chat(*each) for each in chats]))
    bench.run(SourceOptions(exports=(file,)), RulesModel, clock=lambda: datetime.now(UTC))
    return text(bench)


def text(bench: Bench) -> str:
    """Return what all articles say, without infoboxes and references."""
    pages = sorted((bench.root / "articles").glob("*.md"))
    shown = (page.read_text().partition("## References")[0] for page in pages)
    return "\n".join(re.sub(r"```info.*?```", "", each, flags=re.DOTALL) for each in shown)


def edit(bench: Bench, page: str, old: str, new: str) -> None:
    path = bench.root / "articles" / f"{page}.md"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def forget_caches(bench: Bench) -> None:
    """Delete what memory keeps beside the vault, so that all is read anew."""
    shutil.rmtree(bench.paths.memory_folder)


@pytest.mark.parametrize("order", list(itertools.permutations((LYON, ROME, OSLO))))
def test_the_order_in_which_exports_arrive_does_not_matter(
    bench: Bench, order: tuple[tuple[str, str, str], ...]
) -> None:
    for each in order:
        read(bench, each)
    stated = text(bench)
    assert "lives in Lyon (until 2025-06-10)." in stated
    assert "lives in Rome now (until 2026-01-10)." in stated
    assert "lives in Oslo now." in stated


@pytest.mark.parametrize("clear", [False, True])
def test_a_deleted_sentence_stays_out(bench: Bench, clear: bool) -> None:
    read(bench, LYON)
    edit(bench, "User", "The user lives in Lyon.[^1]", "")
    if clear:
        forget_caches(bench)
    assert "Lyon" not in read(bench, LYON)
    assert "Lyon" not in read(bench, ("z", "2025-02-01", "I live in Lyon."))


@pytest.mark.parametrize("clear", [False, True])
def test_an_edited_sentence_stays_as_it_is(bench: Bench, clear: bool) -> None:
    read(bench, LYON)
    edit(bench, "User", "The user lives in Lyon.", "The user lives near Lyon, in Vienne.")
    if clear:
        forget_caches(bench)
    stated = read(bench, LYON)
    assert stated.count("Lyon") == 1
    assert "The user lives near Lyon, in Vienne." in stated


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("source", [False, True])
def test_what_is_forgotten_stays_forgotten(bench: Bench, clear: bool, source: bool) -> None:
    read(bench, LYON)
    memory = bench.memory
    forget(memory, plan_forget(memory, "Lyon", source=source))
    if clear:
        forget_caches(bench)
    assert "Lyon" not in read(bench, LYON)
    assert "Porto" in text(bench) or source
    files = [p for p in bench.root.rglob("*") if p.is_file() and ".git" not in p.parts]
    assert not any(b"Lyon" in path.read_bytes() for path in files)


def test_a_reverted_run_stays_reverted(bench: Bench) -> None:
    read(bench, LYON)
    before = text(bench)
    read(bench, ROME)
    git = bench.memory.git
    said = git.run("log", "-1", "--format=%B", git.head() or "").decode()
    revert_run(bench.memory.vault, re.search(r"\d{8}-\d{6}-\w{4}", said)[0])  # type: ignore[index]
    assert text(bench) == before
    assert read(bench, ROME) == before
    forget_caches(bench)
    read(bench, ROME)
    assert "Rome" in text(bench) or text(bench) == before


def test_two_values_of_one_day_and_one_without_a_date_are_not_decided(bench: Bench) -> None:
    read(bench, LYON)
    stated = read(bench, ("d", "2025-01-10", "I live in Bern now."))
    assert "lives in Lyon." in stated
    assert "Bern" not in stated
    stated = read(bench, ("e", None, "I live in Graz now."))
    assert "lives in Lyon." in stated
    talk = "\n".join(page.read_text() for page in (bench.root / "Talk").glob("*.md"))
    assert "Bern" in talk
    assert "Graz" in talk


def test_namesakes_with_equal_full_names_and_other_roles_are_two(bench: Bench) -> None:
    read(bench, ("a", "2025-01-10", "Daniel Weiss, our baker, lives in Kiel."))
    read(bench, ("b", "2025-02-10", "Daniel Weiss, my dentist, lives in Ulm."))
    pages = [page.stem for page in (bench.root / "articles").glob("Daniel Weiss*.md")]
    assert len(pages) == 2
    assert "(until" not in text(bench)
