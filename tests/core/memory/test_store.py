"""The store of conversations: what is kept, what is new, and what stays away."""

from __future__ import annotations

import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from core.memory.sources.raw import digest_of
from core.memory.store import ConversationStore
from core.memory.turns import SourceConversation, Turn

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def conversation(
    *texts: str, key: str = "a", kind: str = "session", at: datetime | None = NOON
) -> SourceConversation:
    turns = tuple(
        Turn(id=f"m{n}", role="user", text=text, at=at and at + timedelta(minutes=n))
        for n, text in enumerate(texts, 1)
    )
    return SourceConversation(
        id=f"{kind}:{key}",
        kind=kind,  # type: ignore[arg-type]
        title="A title",
        turns=turns,
        digest=digest_of(turns),
        at=at,
    )


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    return ConversationStore(
        tmp_path / "memory" / "vault",
        key=b"k" * 32,
        marks=tmp_path / "forgotten",
        on_note=pytest.fail,
    )


def test_what_is_added_can_be_read_again(store: ConversationStore) -> None:
    said = conversation("I moved to Lyon.", "東京に行った")
    assert store.get(said.id) is None
    assert store.add(said, origin="/a.jsonl") == "new"
    assert store.get(said.id) == said
    assert store.add(said, origin="/a.jsonl") == "unchanged"


def test_only_the_user_can_read_it(store: ConversationStore, tmp_path: Path) -> None:
    store.add(conversation("x"), origin="/a")
    folder = tmp_path / "memory" / "vault"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()] == [0o600]


def test_paths_are_not_readable_in_it(store: ConversationStore, tmp_path: Path) -> None:
    store.add(conversation("x"), origin="/home/ada/hunter2.jsonl")
    store.remember_file("/home/ada/hunter2.jsonl", "state")
    data = (tmp_path / "memory" / "vault" / "conversations.db").read_bytes()
    assert b"hunter2" not in data


def test_removed_text_is_overwritten(store: ConversationStore, tmp_path: Path) -> None:
    store.add(conversation("the passphrase is zanzibar"), origin="/a")
    assert store.remove(["session:a", "session:none"]) == 1
    data = (tmp_path / "memory" / "vault" / "conversations.db").read_bytes()
    assert b"zanzibar" not in data
    assert store.get("session:a") is None


def test_a_changed_conversation_waits_again(store: ConversationStore) -> None:
    first = conversation("one")
    store.add(first, origin="/a")
    store.mark_synthesized([(first.id, first.digest)], run="r1")
    assert store.unsynthesized() == ()
    longer = conversation("one", "two")
    assert store.add(longer, origin="/a") == "changed"
    (head,) = store.unsynthesized()
    assert (head.id, head.digest, head.synthesized) == (first.id, longer.digest, first.digest)


def test_a_digest_that_a_run_has_not_read_stays_due(store: ConversationStore) -> None:
    first = conversation("one")
    store.add(first, origin="/a")
    store.add(conversation("one", "two"), origin="/a")
    store.mark_synthesized([(first.id, first.digest)], run="r1")
    assert [head.id for head in store.unsynthesized()] == [first.id]


def test_an_older_export_does_not_undo_a_newer_one(store: ConversationStore) -> None:
    newer = conversation("one", "two")
    store.add(newer, origin="/new.zip")
    assert store.add(conversation("one"), origin="/old.zip") == "older"
    assert store.get(newer.id) == newer
    # The same file may take back what it said: a chat in which the user typed `/undo`.
    assert store.add(conversation("one"), origin="/new.zip") == "changed"


def test_since_leaves_out_older_conversations(store: ConversationStore) -> None:
    for key, at in (("old", NOON - timedelta(days=9)), ("new", NOON), ("undated", None)):
        store.add(conversation("x", key=key, at=at), origin=key)
    ids = [head.id for head in store.unsynthesized(since=NOON - timedelta(days=1))]
    assert ids == ["session:new", "session:undated"]
    assert [head.id for head in store.conversations()][-1] == "session:undated"


def test_what_is_forgotten_does_not_come_back(store: ConversationStore, tmp_path: Path) -> None:
    said = conversation("I moved to Lyon.")
    store.add(said, origin="/a")
    store.remove([said.id])
    store.forget("source", [said.id])
    assert store.add(said, origin="/b") == "forgotten"
    assert store.forgotten("source", [said.id, "session:b"]) == {said.id}
    assert b"session:a" not in (tmp_path / "memory" / "vault" / "conversations.db").read_bytes()


def test_copies_of_turns_are_known(store: ConversationStore) -> None:
    store.add(conversation("one", "two", kind="codex"), origin="/a")
    longer = conversation("one", "two", "three", key="b", kind="codex")
    assert store.copied_turns(longer) == {"m1", "m2"}
    assert store.copied_turns(replace(longer, kind="claude-code")) == frozenset()
    assert store.copied_turns(replace(longer, id="codex:a")) == frozenset()


def test_thousands_of_turns(store: ConversationStore) -> None:
    said = conversation(*(f"line {n}" for n in range(5000)), kind="codex")
    store.add(said, origin="/a")
    assert store.get(said.id) == said
    assert len(store.copied_turns(replace(said, id="codex:b"))) == 5000
