"""A whole run: what it writes, what it leaves as it was, and how the next one resumes."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    EngineLost,
    StoreCorrupt,
    UsageProblem,
    VaultBusy,
    VaultChanged,
    VaultMissing,
)
from core.figures import Figure, FigureStore, MachineIdentity, Run, RunSettings
from core.memory import pipeline
from core.memory.asking import Cancelled, Question
from core.memory.events import Note, StageStarted, SynthesisSummary
from core.memory.git import Git
from core.memory.ledger import LEDGER
from core.memory.ledger_file import LARGEST_LEDGER
from core.memory.opening import Memory, open_memory
from core.memory.pipeline import SynthesisOptions, synthesize
from core.memory.planning import plan_articles
from core.memory.results import ResultStore
from core.memory.rules import RulesModel
from core.memory.run_commit import review_branch
from core.memory.sources.find import SourceOptions
from core.memory.stages.types import STAGES
from core.memory.turns import SourceConversation
from core.paths import Paths
from tests.core.memory.scripted import ScriptedModel, conversation, never

NOW = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
ANA = conversation("My sister Ana lives in Porto.", source="session:ana")
MOVED = conversation(
    "My sister Ana moved to Lisbon.", source="session:moved", day=datetime(2026, 5, 1, tzinfo=UTC)
)


class World:
    """A vault, its stores, and a model that follows rules and counts."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths.from_environ({"HOME": str(folder)})
        self.root = folder / "vault"
        for name in ("articles", "Reference", "Meta", "Talk"):
            (self.root / name).mkdir(parents=True)
        (self.root / "README.md").write_text("# Memory\n")
        Git(self.root).init()
        rules = RulesModel()
        self.model = ScriptedModel(lambda question: rules.answer(question, cancelled=never))
        self.events: list[Any] = []
        self.cancelled: Callable[[], bool] = never
        self.times = iter(NOW + timedelta(seconds=number) for number in range(100_000))
        self.clock: Callable[[], datetime] = lambda: next(self.times)

    @property
    def memory(self) -> Memory:
        return open_memory(self.paths, self.root)

    def hear(self, *conversations: SourceConversation) -> None:
        for each in conversations:
            self.memory.store.add(each, origin=each.id)

    def run(self, model: Callable[[], Any] | None = None, **options: Any) -> SynthesisSummary:
        self.events = []
        return synthesize(
            SynthesisOptions(**({"sources": None} | options)),
            vault_root=self.root,
            paths=self.paths,
            model=model or (lambda: self.model),
            on_event=self.events.append,
            cancelled=self.cancelled,
            clock=self.clock,
        )

    def article(self, name: str) -> str:
        return (self.root / "articles" / f"{name}.md").read_text()

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in found
            if ".git" not in path.relative_to(self.root).parts
        }

    def waiting(self) -> list[str]:
        return [head.id for head in self.memory.store.unsynthesized()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_run_writes_articles_in_one_commit_that_names_its_sources(world: World) -> None:
    world.hear(ANA)
    summary = world.run()
    assert "Porto" in world.article("Ana")
    assert "[^1]: session:ana#m1 (2026-03-01)" in world.article("Ana")
    assert summary.created == ("Ana",)
    assert summary.facts >= 1
    assert summary.complete
    message = world.git("show", "-s", "--format=%an%n%B", summary.commit or "")
    assert message.startswith("mlxbun\n")
    assert f"Mlxbun-Run: {summary.run}" in message
    assert "Mlxbun-Source: session:ana" in message
    assert "Model: scripted" in message
    assert world.git("status", "--porcelain") == ""
    assert not world.waiting()


def test_the_stages_come_in_order_and_the_summary_last(world: World) -> None:
    world.hear(ANA)
    summary = world.run()
    started = [event.stage for event in world.events if isinstance(event, StageStarted)]
    assert started == list(STAGES[1:])
    assert world.events[-1] == summary


def test_the_same_conversations_and_answers_make_the_same_articles(tmp_path: Path) -> None:
    results = []
    for name in ("one", "two"):
        world = World(tmp_path / name)
        world.hear(ANA, MOVED)
        results.append((world.run().run, world.files()))
    assert results[0] == results[1]


def test_a_ledger_that_is_too_large_stops_the_run(world: World) -> None:
    world.hear(ANA)
    with (world.root / LEDGER).open("wb") as file:
        file.truncate(LARGEST_LEDGER + 2)
    before = world.git("log", "--all", "--format=%s")
    with pytest.raises(StoreCorrupt, match="ledger"):
        world.run()
    assert "Synthesize" not in before + world.git("log", "--all", "--format=%s")


def test_nothing_new_opens_no_model_and_makes_no_commit(world: World) -> None:
    world.hear(ANA)
    world.run()
    head = world.git("rev-parse", "HEAD")

    def no_model() -> Any:
        pytest.fail("a model was opened")

    summary = world.run(no_model)
    assert summary.commit is None
    assert summary.complete
    assert world.git("rev-parse", "HEAD") == head


def test_a_fact_that_changes_later_is_kept_with_its_end(world: World) -> None:
    world.hear(ANA)
    world.run()
    world.hear(MOVED)
    world.run()
    text = world.article("Ana")
    assert "(until 2026-05-01)" in text
    assert "Lisbon" in text
    assert "session:ana#m1" in text


def test_the_ledger_has_a_line_for_each_fact_and_keeps_its_lines(world: World) -> None:
    world.hear(ANA)
    first = world.run()
    ledger = world.root / "Meta" / "ledger.jsonl"
    before = ledger.read_text()
    entries = [json.loads(line) for line in before.splitlines()]
    assert len({entry["fact"] for entry in entries}) == len(entries) >= first.facts
    assert {entry["run"] for entry in entries} == {first.run}
    world.hear(MOVED)
    world.run()
    assert ledger.read_text().startswith(before)


def test_what_the_user_deletes_does_not_come_back(world: World) -> None:
    world.hear(ANA)
    world.run()
    (world.root / "articles" / "Ana.md").unlink()
    with_more = conversation("My sister Ana lives in Porto.", "Hello!", source="session:ana")
    world.hear(with_more)
    world.run()
    assert not (world.root / "articles" / "Ana.md").exists()


class Stopped(BaseException):
    """Stands for `kill -9`: no handler of ours takes it for an error."""


def stop_at(world: World, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """Make the next run end when a stage begins."""
    appended = world.events.append

    def hear(event: Any) -> None:
        if isinstance(event, StageStarted) and event.stage == stage:
            raise Stopped
        appended(event)

    with pytest.raises(Stopped):
        synthesize(
            SynthesisOptions(sources=None),
            vault_root=world.root,
            paths=world.paths,
            model=lambda: world.model,
            on_event=hear,
            cancelled=never,
            clock=world.clock,
        )


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_run_that_breaks_off_leaves_the_vault_and_the_next_one_resumes(
    world: World, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    world.hear(ANA, MOVED)
    before = world.files()
    stop_at(world, monkeypatch, stage)
    assert world.files() == before
    assert len(world.waiting()) == 2
    asked = list(map(repr, world.model.asked))
    world.run()
    again = list(map(repr, world.model.asked))[len(asked) :]
    assert not set(asked) & set(again)
    assert "Lisbon" in world.article("Ana")


def test_a_crash_after_the_commit_makes_no_duplicates(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hear(ANA)

    def crash(*_args: Any, **_options: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr("core.memory.store.ConversationStore.mark_synthesized", crash)
        with pytest.raises(Stopped):
            world.run()
    before = world.files()
    assert "Porto" in world.article("Ana")
    summary = world.run()
    assert world.files() == before
    assert summary.commit is None
    assert not world.waiting()


def test_cancelling_at_any_question_leaves_the_vault(world: World) -> None:
    world.hear(ANA, MOVED)
    before = world.files()
    for most in range(1, 6):
        asked = len(world.model.asked)
        world.cancelled = lambda asked=asked, most=most: len(world.model.asked) >= asked + most  # type: ignore[misc]
        try:
            world.run()
        except Cancelled:
            assert world.files() == before
        else:
            break
    world.cancelled = never
    if world.waiting():
        world.run()
    assert "Lisbon" in world.article("Ana")


def test_a_lost_engine_ends_the_run_and_leaves_the_vault(world: World) -> None:
    world.hear(ANA)
    before = world.files()

    def lost(question: Question) -> Mapping[str, Any]:
        if question.stage == "extract":
            raise EngineLost("The engine is gone.")
        return {}

    with pytest.raises(EngineLost):
        world.run(lambda: ScriptedModel(lost))
    assert world.files() == before
    assert world.waiting() == ["session:ana"]


def test_answers_are_gone_after_a_run_that_is_complete(world: World) -> None:
    world.hear(ANA)
    world.run()
    results = ResultStore(world.memory.folder, on_note=pytest.fail)
    assert results.count() == 0


def test_an_article_that_changes_meanwhile_is_planned_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hear(ANA)
    world.run()
    world.hear(MOVED)
    planned = plan_articles
    edits = iter(["An edit of mine."])

    def edit_after_planning(*args: Any, **options: Any) -> Any:
        plan = planned(*args, **options)
        for edit in edits:
            path = world.root / "articles" / "Ana.md"
            path.write_text(path.read_text().replace("# Ana\n", f"# Ana\n\n{edit}\n", 1))
        return plan

    monkeypatch.setattr(pipeline, "plan_articles", edit_after_planning)
    world.run()
    assert "An edit of mine." in world.article("Ana")
    assert "Lisbon" in world.article("Ana")
    assert any(
        isinstance(event, Note) and "planning again" in event.message for event in world.events
    )
    assert "An edit of mine." in world.git("show", "HEAD~1:articles/Ana.md")


def test_an_article_that_always_changes_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hear(ANA)
    world.run()
    world.hear(MOVED)
    planned = plan_articles
    path = world.root / "articles" / "Ana.md"

    def edit_after_planning(*args: Any, **options: Any) -> Any:
        plan = planned(*args, **options)
        path.write_text(path.read_text() + "\nMore.\n")
        return plan

    monkeypatch.setattr(pipeline, "plan_articles", edit_after_planning)
    with pytest.raises(VaultChanged):
        world.run()
    assert "Lisbon" not in world.article("Ana")
    assert world.waiting() == ["session:moved"]


def test_one_run_at_a_time(world: World) -> None:
    world.hear(ANA)
    entered, leave = threading.Event(), threading.Event()

    def slow() -> Any:
        entered.set()
        leave.wait(20)
        return world.model

    thread = threading.Thread(target=lambda: world.run(slow))
    thread.start()
    assert entered.wait(20)
    with pytest.raises(VaultBusy):
        world.run()
    leave.set()
    thread.join()
    assert "Porto" in world.article("Ana")


def test_a_limit_takes_the_oldest_and_says_that_it_is_not_all(world: World) -> None:
    world.hear(ANA, MOVED)
    summary = world.run(limit=1)
    assert not summary.complete
    assert summary.conversations == 1
    assert len(world.waiting()) == 1
    assert world.run(limit=1).complete


def test_since_leaves_out_what_is_older(world: World) -> None:
    world.hear(ANA, MOVED)
    world.run(since=datetime(2026, 4, 1, tzinfo=UTC))
    assert "Lisbon" in world.article("Ana")
    assert world.waiting() == ["session:ana"]


def test_a_budget_ends_it_at_the_next_conversation_and_keeps_what_is_whole(world: World) -> None:
    world.hear(ANA, MOVED)
    times = iter(NOW + timedelta(minutes=number) for number in range(10_000))
    world.clock = lambda: next(times)
    summary = world.run(budget_minutes=2)
    assert not summary.complete
    assert summary.conversations == 1
    assert len(world.waiting()) == 1
    assert summary.commit


def test_a_review_goes_to_a_branch_and_leaves_files_and_head(world: World) -> None:
    world.hear(ANA)
    before, head = world.files(), world.git("branch", "--show-current")
    summary = world.run(review=True)
    assert summary.branch == review_branch(summary.run)
    assert "Porto" in world.git("show", f"{summary.branch}:articles/Ana.md")
    assert world.files() == before
    assert world.git("branch", "--show-current") == head


def test_a_dry_run_needs_no_model_and_writes_nothing(world: World) -> None:
    world.hear(ANA, MOVED)
    before = world.files()

    def no_model() -> Any:
        pytest.fail("a model was opened")

    summary = world.run(no_model, dry_run=True)
    assert (summary.conversations, summary.run, summary.model) == (2, "", "")
    assert summary.tokens > 0
    assert "unknown" in summary.note
    assert world.files() == before
    assert len(world.waiting()) == 2


def test_a_dry_run_reads_sources_and_keeps_nothing(world: World, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "Ana.md").write_text("My sister Ana lives in Porto.\n")
    world.hear(MOVED)
    summary = world.run(sources=SourceOptions(notes=(notes,)), dry_run=True)
    assert summary.conversations == 2
    assert world.waiting() == ["session:moved"]


def test_a_dry_run_estimates_the_time_from_a_benchmark(world: World) -> None:
    world.hear(ANA)
    figures = (Figure.of("prefill", 512, [100.0]), Figure.of("decode", 1, [10.0]))
    FigureStore(world.paths.figures_file).add(
        Run(
            model_id="tiny",
            revision="r",
            machine=MachineIdentity(processor="p", cores=1, memory_bytes=1, backend="cpu"),
            settings=RunSettings(
                blas="-", loaded_as="-", dequantize="auto", prefill="latency", batch=1, tokens=1
            ),
            mlx="0",
            mlx_lm="0",
            mlxbun="0",
            measured_at="2026-03-01T00:00:00+00:00",
            figures=figures,
        )
    )
    summary = world.run(dry_run=True)
    assert summary.seconds == pytest.approx(summary.tokens * (2.5 / 100 + 0.4 / 10))
    assert "tiny" in summary.note


def test_a_run_reads_its_sources_first(world: World, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "Ana.md").write_text("My sister Ana lives in Porto.\n")
    summary = world.run(sources=SourceOptions(notes=(notes,)))
    assert summary.conversations == 1
    assert "Porto" in world.article("Ana")
    started = [event.stage for event in world.events if isinstance(event, StageStarted)]
    assert list(dict.fromkeys(started)) == list(STAGES)


def test_the_model_is_closed_whatever_happens(world: World) -> None:
    world.hear(ANA)
    closed = []

    class Closing(ScriptedModel):
        def close(self) -> None:
            closed.append(True)

    def fail(_question: Question) -> Mapping[str, Any]:
        raise Stopped

    with pytest.raises(Stopped):
        world.run(lambda: Closing(fail))
    assert closed == [True]


def test_refusals_are_on_a_talk_page(world: World) -> None:
    world.hear(ANA)

    def invents(question: Question) -> Mapping[str, Any]:
        if question.stage != "extract":
            return RulesModel().answer(question, cancelled=never)
        lie = {
            "message": "m1",
            "quote": "My sister Ana lives in Porto",
            "subject": "Ana",
            "kind": "person",
            "property": "home city",
            "value": "Rome",
            "exclusive": True,
            "sentence": "Ana lives in Rome.",
        }
        return {"facts": [lie]}

    summary = world.run(lambda: ScriptedModel(invents))
    assert summary.refused == 1
    assert "Ana lives in Rome." in (world.root / "Talk" / "Synthesis.md").read_text()
    assert not (world.root / "articles" / "Ana.md").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"limit": 0},
        {"budget_minutes": 0},
        {"budget_minutes": float("nan")},
        {"since": datetime(2026, 1, 1)},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageProblem):
        SynthesisOptions(sources=None, **options)


def test_without_a_vault_there_is_nothing_to_synthesize(world: World, tmp_path: Path) -> None:
    world.root = tmp_path / "elsewhere"
    with pytest.raises(VaultMissing):
        world.run()
