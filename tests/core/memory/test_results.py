"""A question that was answered is not asked again; what is kept is private and bounded."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from core.errors import ContextTooLong, EngineLost
from core.memory import results as module
from core.memory.asking import Question
from core.memory.results import KeepingModel, ModelFailed, ResultStore, question_key
from tests.core.memory.scripted import ScriptedModel, never


def question(**changes: Any) -> Question:
    fields: dict[str, Any] = {
        "stage": "extract",
        "instructions": "List the facts.",
        "data": {"turns": [{"id": "m1", "text": "Porto"}]},
        "schema": {"type": "object"},
    }
    return Question(**(fields | changes))


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "memory", on_note=pytest.fail)


def test_an_answer_is_asked_for_once(store: ResultStore) -> None:
    model = ScriptedModel(lambda _question: {"facts": ["Porto"]})
    for _ in range(3):  # a new wrapper, as in a new process
        keeping = KeepingModel(model, store)
        assert keeping.answer(question(), cancelled=never) == {"facts": ["Porto"]}
    assert len(model.asked) == 1
    assert len(keeping.used) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"stage": "route"},
        {"instructions": "List all facts."},
        {"data": {"turns": [{"id": "m1", "text": "Lisbon"}]}},
        {"schema": {"type": "object", "maxProperties": 1}},
    ],
)
def test_another_question_has_another_key(changes: dict[str, Any]) -> None:
    assert question_key("m", question()) != question_key("m", question(**changes))
    assert question_key("m", question()) != question_key("n", question())


def test_keys_stand_texts_that_are_no_unicode() -> None:
    assert question_key("m", question(data={"text": "\ud800"}))


def test_the_file_is_private(store: ResultStore, tmp_path: Path) -> None:
    store.put("key", "extract", {"a": 1})
    folder = tmp_path / "memory"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_removed_and_cleared_answers_are_gone(store: ResultStore) -> None:
    store.put("a", "extract", {})
    store.put("b", "extract", {})
    store.remove(["a"])
    assert store.get("a") is None
    assert store.get("b") == {}
    store.clear()
    assert store.count() == 0


def test_no_text_is_left_in_the_file(store: ResultStore, tmp_path: Path) -> None:
    store.put("a", "extract", {"quote": "a secret of mine"})
    store.clear()
    assert b"secret of mine" not in (tmp_path / "memory" / "results.db").read_bytes()


def test_the_oldest_go_first(store: ResultStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHARACTERS", 100)
    for number in range(10):
        store.put(f"key {number}", "extract", {"text": "x" * 20})
    store.tidy()
    assert [store.get(f"key {number}") is not None for number in range(10)] == [False] * 7 + [
        True
    ] * 3


def test_old_answers_go(store: ResultStore, tmp_path: Path) -> None:
    store.put("old", "extract", {})
    store.put("new", "extract", {})
    with sqlite3.connect(tmp_path / "memory" / "results.db") as connection:
        connection.execute("UPDATE answers SET at = '2020-01-01 00:00:00' WHERE key = 'old'")
    store.tidy()
    assert store.get("old") is None
    assert store.get("new") == {}


def test_an_answer_that_is_too_long_is_asked_for_again(store: ResultStore) -> None:
    model = ScriptedModel(lambda _question: {"text": "x" * 1_000_001})
    KeepingModel(model, store).answer(question(), cancelled=never)
    KeepingModel(model, store).answer(question(), cancelled=never)
    assert len(model.asked) == 2


@pytest.mark.parametrize("text", ["no JSON", "[]", "[" * 10_000])
def test_a_damaged_answer_is_asked_for_again(store: ResultStore, tmp_path: Path, text: str) -> None:
    store.put("key", "extract", {})
    with sqlite3.connect(tmp_path / "memory" / "results.db") as connection:
        connection.execute("UPDATE answers SET answer = ?", (text,))
    assert store.get("key") is None


def test_a_damaged_file_is_left_out_with_a_note(tmp_path: Path) -> None:
    notes: list[str] = []
    (tmp_path / "results.db").write_bytes(b"no database at all" * 100)
    store = ResultStore(tmp_path, on_note=notes.append)
    assert store.get("key") is None
    store.put("key", "extract", {"a": 1})
    assert store.get("key") == {"a": 1}
    assert notes


def test_an_answer_that_is_no_object_is_empty(store: ResultStore) -> None:
    model = ScriptedModel(lambda _question: [1, 2])  # type: ignore[arg-type, return-value]
    assert KeepingModel(model, store).answer(question(), cancelled=never) == {}


def test_a_lost_engine_is_no_missing_answer(store: ResultStore) -> None:
    def lost(_question: Question) -> dict[str, Any]:
        raise EngineLost("The engine is gone.")

    with pytest.raises(ModelFailed) as caught:
        KeepingModel(ScriptedModel(lost), store).answer(question(), cancelled=never)
    assert isinstance(caught.value.error, EngineLost)


def test_a_question_that_is_too_long_is_the_stages_business(store: ResultStore) -> None:
    def too_long(_question: Question) -> dict[str, Any]:
        raise ContextTooLong("too long", prompt_tokens=9, limit=8)

    with pytest.raises(ContextTooLong):
        KeepingModel(ScriptedModel(too_long), store).answer(question(), cancelled=never)
    assert store.count() == 0
