"""Ingestion: only what is new or changed, redacted, whatever the sources hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import NotFound
from core.memory.asking import Cancelled
from core.memory.redact.key import vault_key
from core.memory.sources.find import SourceOptions
from core.memory.stages.ingest import IngestResult, ingest
from core.memory.store import ConversationStore, turn_name
from core.paths import Paths
from core.sessions.conversation import said
from tests.core.memory.sources.making import chatgpt, claude, write_json, write_zip


@dataclass(frozen=True, kw_only=True)
class Place:
    root: Path
    paths: Paths
    store: ConversationStore

    def ingest(
        self, cancelled: Callable[[], bool] = lambda: False, **sources: object
    ) -> IngestResult:
        options = SourceOptions(**sources) if sources else None  # type: ignore[arg-type]
        return ingest(
            vault=self,
            paths=self.paths,
            sources=options,
            store=self.store,
            on_event=lambda event: None,
            cancelled=cancelled,
        )

    def texts(self, source: str) -> list[str]:
        found = self.store.get(source)
        return [turn.text for turn in found.turns] if found else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "vault"
    (root / ".git").mkdir(parents=True)
    store = ConversationStore(
        tmp_path / "memory", key=vault_key(root), marks=root / "forgotten", on_note=pytest.fail
    )
    home = tmp_path / "home"
    paths = Paths(home=home, cache=tmp_path / "cache", hub_cache=tmp_path / "hub")
    paths.sessions_folder.mkdir(parents=True)
    return Place(root=root, paths=paths, store=store)


def _counts(result: IngestResult) -> tuple[int, int, int]:
    return result.new, result.changed, result.unchanged


def _session(place: Place, name: str, *texts: str) -> Path:
    entries = [{"type": "session", "id": name}, *(said("user", text) for text in texts)]
    path = place.paths.sessions_folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def _old(path: Path) -> None:
    os.utime(path, (1_700_000_000, 1_700_000_000))


def test_only_what_is_new_or_changed(place: Place) -> None:
    _session(place, "a", "I live in Lyon.")
    _session(place, "b", "I like tea.")
    assert _counts(place.ingest()) == (2, 0, 0)
    assert _counts(place.ingest()) == (0, 0, 2)
    _session(place, "a", "I live in Lyon.", "And I cycle.")
    assert _counts(place.ingest()) == (0, 1, 1)
    assert place.texts("session:a") == ["I live in Lyon.", "And I cycle."]


def test_files_that_look_the_same_are_not_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _session(place, "a", "I live in Lyon.")
    _old(path)
    place.ingest()
    path.chmod(0)
    monkeypatch.setattr("core.memory.stages.ingest._digest", pytest.fail)
    assert _counts(place.ingest()) == (0, 0, 1)


def test_secrets_are_replaced_before_they_are_stored(place: Place, tmp_path: Path) -> None:
    _session(place, "a", "my password is hunter2 and I am ada@example.org", "ada@example.org")
    place.ingest()
    first, second = place.texts("session:a")
    assert second.startswith("[e-mail ")
    assert second in first
    for file in (tmp_path / "memory").iterdir():
        assert b"hunter2" not in file.read_bytes()
        assert b"example.org" not in file.read_bytes()


def test_a_secret_in_a_title_is_replaced_too(place: Place, tmp_path: Path) -> None:
    chat = chatgpt(("user", "hello"))
    chat["title"] = "Call +49 170 1234567"
    place.ingest(exports=(write_json(tmp_path / "conversations.json", [chat]),))
    (head,) = place.store.conversations()
    assert head.title.startswith("Call [phone ")


def test_an_export_again_changes_nothing(place: Place, tmp_path: Path) -> None:
    chats = [chatgpt(("user", "a"), key="c1"), claude(("human", "b"), key="k1")]
    first = write_json(tmp_path / "conversations.json", chats)
    again = write_zip(tmp_path / "again.zip", list(reversed(chats)))
    assert _counts(place.ingest(exports=(first,))) == (2, 0, 0)
    assert _counts(place.ingest(exports=(again,))) == (0, 0, 2)


def test_an_older_export_is_named(place: Place, tmp_path: Path) -> None:
    new = write_json(tmp_path / "new.json", [chatgpt(("user", "a"), ("user", "b"))])
    old = write_json(tmp_path / "old.json", [chatgpt(("user", "a"))])
    place.ingest(exports=(new,))
    result = place.ingest(exports=(old,))
    assert [each.reason for each in result.skipped] == ["an older version of a conversation"]
    assert place.texts("chatgpt:c1") == ["a", "b"]


def test_what_is_broken_costs_only_itself(place: Place) -> None:
    path = _session(place, "a", "I live in Lyon.")
    path.write_bytes(path.read_bytes() + b"{broken\n")
    (place.paths.sessions_folder / "pipe.jsonl").mkdir()
    os.mkfifo(place.paths.sessions_folder / "fifo.jsonl")
    (place.paths.sessions_folder / "gone.jsonl").symlink_to("nowhere")
    result = place.ingest()
    assert (_counts(result), result.broken_lines) == ((1, 0, 0), 1)
    assert place.ingest().broken_lines == 1


def test_a_named_source_has_to_be_there(place: Place, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no export"):
        place.ingest(exports=(tmp_path / "none.zip",))
    with pytest.raises(NotFound, match="no folder of notes"):
        place.ingest(notes=(tmp_path / "none",))
    missing = tmp_path / "none"
    assert _counts(place.ingest(sessions=missing, claude_code=missing, codex=missing)) == (0, 0, 0)


def test_cancelling_keeps_what_was_stored(place: Place) -> None:
    for name in "abc":
        _session(place, name, "x")
    calls = iter([False] * 14)
    with pytest.raises(Cancelled):
        place.ingest(cancelled=lambda: next(calls, True))
    assert 0 < len(place.store.conversations()) < 3
    assert sum(_counts(place.ingest())) == 3


def test_the_vault_is_no_source(place: Place, tmp_path: Path) -> None:
    (place.root / "articles").mkdir()
    (place.root / "articles" / "Ada.md").write_text("Ada lives in Lyon.\n")
    (tmp_path / "note.md").write_text("A note.\n")
    assert _counts(place.ingest(notes=(tmp_path,))) == (1, 0, 0)


def test_forgotten_turns_stay_away(place: Place) -> None:
    _session(place, "a", "I live in Lyon.", "I like tea.")
    place.ingest()
    conversation = place.store.get("session:a")
    assert conversation is not None
    place.store.forget("turn", [turn_name(conversation.id, "session", conversation.turns[0].id)])
    place.store.remove([conversation.id])
    _session(place, "a", "I live in Lyon.", "I like tea.", "More.")
    place.ingest()
    assert place.texts("session:a") == ["I like tea.", "More."]


def test_a_forgotten_conversation_is_named(place: Place) -> None:
    path = _session(place, "a", "I live in Lyon.")
    _old(path)
    place.ingest()
    place.store.forget_turns("session:a", frozenset({"m2"}), title=None)
    result = place.ingest()
    assert _counts(result) == (0, 0, 0)
    assert [each.reason for each in result.skipped] == ["a conversation that is forgotten"]


def test_copies_in_resumed_sessions_are_left_out(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-p"
    folder.mkdir(parents=True)

    def line(uuid: str, parent: str | None, text: str) -> str:
        message = {"role": "user", "content": text}
        return json.dumps({"type": "user", "uuid": uuid, "parentUuid": parent, "message": message})

    first = [line("u1", None, "I live in Lyon."), line("u2", "u1", "I like tea.")]
    (folder / "s1.jsonl").write_text("\n".join(first))
    _old(folder / "s1.jsonl")
    (folder / "s2.jsonl").write_text("\n".join([*first, line("u3", "u2", "More.")]))
    place.ingest(claude_code=tmp_path / "projects")
    assert place.texts("claude-code:s1") == ["I live in Lyon.", "I like tea."]
    assert place.texts("claude-code:s2") == ["More."]


def test_memory_results_are_taken_out(place: Place) -> None:
    from core.memory.pages import Data, answer

    shown = answer(Data(text="Ada lives in Lyon.", source="articles/Ada.md", date="2026-01-01"), 1)
    _session(place, "a", f"Look:\n{shown}\nI like tea.")
    place.ingest()
    (text,) = place.texts("session:a")
    assert "Lyon" not in text
    assert text.startswith("Look:")
    assert text.endswith("I like tea.")
