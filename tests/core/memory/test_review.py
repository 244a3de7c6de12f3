"""Runs on a branch, accepted and rejected sentence by sentence."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import NotFound, UsageProblem
from core.memory.git import Git
from core.memory.ledger import LEDGER, Ledger, appended, entry_of, parse_ledger
from core.memory.planning import plan_articles
from core.memory.review import Reviewed, decide, open_review, waiting
from core.memory.reviewing import ReviewItem
from core.memory.stages.types import ArticlePlan, Fact
from core.memory.vault import Vault
from core.memory.writer import Change, editing
from tests.core.memory.repositories import messages, new_vault, user_git
from tests.core.memory.scripted import ScriptedModel, never
from tests.core.memory.stages.making import fact, model, pages

RUN = "20260301-120000-abcd"
LYON = fact("Ada Lind lives in Lyon.", exclusive=True, date="2025-01-10", source="session:a")
OSLO = fact("Ada Lind lives in Oslo.", exclusive=True, date="2026-02-10", source="session:c")
CHESS = fact("Ada Lind plays chess.", about="hobby", source="session:c", message="m2")
HERON = fact(
    "Heron is led by Ada Lind.",
    subject="Heron",
    kind="project",
    about="leader",
    value="Ada Lind",
    source="session:c",
    message="m3",
)
JOB = fact("Ada Lind works at Heron.", about="employer", source="session:c", message="m4")


class Repository:
    """A vault in git that runs are written to."""

    def __init__(self, root: Path) -> None:
        self.root = new_vault(root)
        self.run(LYON, run="20250110-120000-abcd")

    def text(self, path: str) -> str:
        file = self.root / path
        return file.read_text() if file.exists() else ""

    @property
    def ada(self) -> str:
        return self.text("articles/Ada Lind.md")

    @property
    def ledger(self) -> Ledger:
        return parse_ledger(self.text(LEDGER))

    def plan(self, *facts: Fact, by: ScriptedModel | None = None) -> ArticlePlan:
        return plan_articles(
            facts,
            vault=Vault(self.root),
            ledger=self.ledger,
            model=by or model(),
            cancelled=never,
            on_event=lambda event: None,
        )

    def run(
        self, *facts: Fact, run: str = RUN, review: bool = False, by: ScriptedModel | None = None
    ) -> None:
        plan = self.plan(*facts, by=by)
        old = self.text(LEDGER)
        text = appended(old, [entry_of(settled, run=run) for settled in plan.settled])
        before = hashlib.sha256(old.encode()).hexdigest() if old else None
        changes = [
            Change(path=page.path, before=page.before, after=page.text) for page in pages(plan)
        ]
        changes.append(Change(path=LEDGER, before=before, after=text))
        sources = tuple({one.source for one in facts})
        with editing(self.root) as edit:
            if review:
                edit.commit_on_branch(f"mlxbun/{run}", changes, "A run", run=run, sources=sources)
            else:
                edit.commit(changes, "A run", run=run, sources=sources)

    def decide(self, accept: Callable[[ReviewItem], bool]) -> Reviewed:
        found = open_review(Git(self.root), RUN).items
        return decide(self.root, RUN, {item.id: accept(item) for item in found})


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "wiki")


def test_a_run_waits_with_its_sentences_and_citations(repository: Repository) -> None:
    before = repository.ada
    repository.run(OSLO, CHESS, review=True)
    assert repository.ada == before
    (run,) = waiting(Git(repository.root))
    assert (run.run, run.branch, run.articles) == (RUN, f"mlxbun/{RUN}", ("Ada Lind",))
    oslo, chess = open_review(Git(repository.root), RUN).items
    assert (oslo.kind, oslo.text, oslo.heading) == ("sentence", "Ada Lind lives in Oslo.", "")
    assert oslo.citations[0].quote == "Ada Lind lives in Oslo."
    assert oslo.citations[0].source == "session:c"
    assert oslo.replaces == ("Ada Lind lives in Lyon.",)
    assert (chess.text, chess.heading, chess.replaces) == ("Ada Lind plays chess.", "Notable", ())


def test_accepting_all_is_the_run_itself(repository: Repository) -> None:
    repository.run(OSLO, CHESS, HERON, JOB, review=True)
    wanted = Git(repository.root).show(f"mlxbun/{RUN}", "articles/Ada Lind.md")
    reviewed = repository.decide(lambda item: True)
    assert repository.ada.encode() == wanted
    assert len(reviewed.accepted) == 4
    assert not waiting(Git(repository.root))
    assert messages(repository.root)[0] == f"mlxbun: Accept 4 of 4 changes of run {RUN}"
    assert f"Mlxbun-Run: {RUN}" in user_git(repository.root, "log", "-1", "--format=%B")
    assert "Mlxbun-Source: session:c" in user_git(repository.root, "log", "-1", "--format=%B")
    assert not repository.plan(OSLO, CHESS, HERON, JOB).patched


def test_what_is_rejected_does_not_come_back(repository: Repository) -> None:
    before = repository.ada
    repository.run(OSLO, CHESS, HERON, review=True)
    reviewed = repository.decide(lambda item: False)
    assert repository.ada == before
    assert not (repository.root / "articles/Heron.md").exists()
    assert len(reviewed.rejected) == 3
    assert not repository.plan(OSLO, CHESS, HERON).patched
    again = fact("Ada Lind plays chess.", about="hobby", source="session:z", date="2026-05-01")
    plan = repository.plan(again)
    assert not plan.patched
    assert "was rejected in a review before" in plan.talk[0].text
    assert [entry.state for entry in repository.ledger.entries] == ["written"] + ["rejected"] * 3


def test_sentences_are_accepted_one_by_one(repository: Repository) -> None:
    before = repository.ada
    repository.run(OSLO, CHESS, review=True)
    repository.decide(lambda item: "Oslo" in item.text)
    assert "Ada Lind lives in Lyon (until 2026-02-10).[^1]" in repository.ada
    assert "Ada Lind lives in Oslo.[^2]" in repository.ada
    assert "home city: Oslo" in repository.ada
    assert "chess" not in repository.ada
    assert "Notable" not in repository.ada
    assert before != repository.ada


def test_rejecting_a_replacement_keeps_the_older_sentence(repository: Repository) -> None:
    repository.run(OSLO, CHESS, review=True)
    repository.decide(lambda item: "chess" in item.text)
    assert "Ada Lind lives in Lyon.[^1]" in repository.ada
    assert "Oslo" not in repository.ada
    assert "until" not in repository.ada
    assert "home city: Lyon" in repository.ada
    assert "## Notable\n\nAda Lind plays chess.[^" in repository.ada


def test_of_two_replacements_one_is_rejected(repository: Repository) -> None:
    rome = fact("Ada Lind lives in Rome.", exclusive=True, date="2025-06-10", source="session:b")
    repository.run(rome, OSLO, review=True)
    repository.decide(lambda item: "Oslo" in item.text)
    assert "Ada Lind lives in Lyon (until 2026-02-10)." in repository.ada
    assert "Rome" not in repository.ada


def test_of_two_replacements_the_latest_is_rejected(repository: Repository) -> None:
    rome = fact("Ada Lind lives in Rome.", exclusive=True, date="2025-06-10", source="session:b")
    repository.run(rome, OSLO, review=True)
    repository.decide(lambda item: "Rome" in item.text)
    assert "Ada Lind lives in Lyon (until 2025-06-10)." in repository.ada
    assert "Ada Lind lives in Rome.[^" in repository.ada
    assert "Oslo" not in repository.ada


def test_another_footnote_can_be_rejected(repository: Repository) -> None:
    before = repository.ada
    again = fact("Ada Lind lives in Lyon.", exclusive=True, date="2025-03-01", source="session:d")
    repository.run(again, CHESS, review=True)
    kinds = [item.kind for item in open_review(Git(repository.root), RUN).items]
    assert kinds == ["citation", "sentence"]
    repository.decide(lambda item: item.kind == "sentence")
    assert "Ada Lind lives in Lyon.[^1]\n" in repository.ada
    assert "session:d" not in repository.ada
    assert before.split("## References")[0].strip() in repository.ada


def test_links_to_an_article_that_was_rejected_go(repository: Repository) -> None:
    repository.run(HERON, JOB, review=True)
    tip = Git(repository.root).show(f"mlxbun/{RUN}", "articles/Ada Lind.md") or b""
    assert b"[[Heron]]" in tip
    repository.decide(lambda item: item.article == "Ada Lind")
    assert "Ada Lind works at Heron.[^" in repository.ada
    assert "[[" not in repository.ada
    assert not (repository.root / "articles/Heron.md").exists()


def test_what_changed_meanwhile_is_kept(repository: Repository) -> None:
    repository.run(OSLO, CHESS, review=True)
    path = repository.root / "articles/Ada Lind.md"
    path.write_text(repository.ada.replace("# Ada Lind\n", "# Ada Lind\n\nMy own sentence.\n", 1))
    reviewed = repository.decide(lambda item: True)
    assert "My own sentence." in repository.ada
    assert "Ada Lind lives in Lyon (until 2026-02-10).[^1]" in repository.ada
    assert "Ada Lind plays chess." in repository.ada
    assert not reviewed.left


def test_where_both_changed_the_same_place_sentences_go_in_one_by_one(
    repository: Repository,
) -> None:
    repository.run(OSLO, CHESS, review=True)
    path = repository.root / "articles/Ada Lind.md"
    path.write_text(
        repository.ada.replace("Ada Lind lives in Lyon.", "She lives near Lyon, gladly.")
    )
    repository.decide(lambda item: True)
    assert "She lives near Lyon, gladly.[^1]" in repository.ada
    assert "Ada Lind lives in Oslo.[^" in repository.ada
    assert "Ada Lind plays chess.[^" in repository.ada


def test_an_article_that_the_user_has_deleted_stays_deleted(repository: Repository) -> None:
    repository.run(OSLO, review=True)
    (repository.root / "articles/Ada Lind.md").unlink()
    reviewed = repository.decide(lambda item: True)
    assert not repository.ada
    assert [item.text for item in reviewed.left] == ["Ada Lind lives in Oslo."]
    assert "Ada Lind lives in Oslo." in repository.text("Talk/Ada Lind.md")


def test_a_later_run_meanwhile_is_kept(repository: Repository) -> None:
    repository.run(CHESS, review=True)
    later = fact("Ada Lind likes tea.", about="drink", source="session:e")
    repository.run(later, run="20260401-120000-abcd")
    repository.decide(lambda item: True)
    assert "Ada Lind likes tea.[^" in repository.ada
    assert "Ada Lind plays chess.[^" in repository.ada
    assert not repository.plan(CHESS, later, LYON).patched


def test_talk_of_the_run_comes_with_it(repository: Repository) -> None:
    repository.run(CHESS, JOB, review=True, by=model(patch={"text": "nonsense"}))
    (repository.root / "Talk").mkdir(exist_ok=True)
    (repository.root / "Talk/Ada Lind.md").write_text("# Talk: Ada Lind\n\nMy remark.\n")
    repository.decide(lambda item: True)
    talk = repository.text("Talk/Ada Lind.md")
    assert "My remark." in talk
    assert "Refused (patch)" in talk


def test_every_item_needs_a_decision(repository: Repository) -> None:
    repository.run(OSLO, review=True)
    with pytest.raises(UsageProblem, match="1 item of run"):
        decide(repository.root, RUN, {})
    with pytest.raises(UsageProblem, match="has no item 'x'"):
        decide(repository.root, RUN, {"x": True})
    assert waiting(Git(repository.root))


def test_an_unknown_run_is_not_found(repository: Repository) -> None:
    with pytest.raises(NotFound):
        open_review(Git(repository.root), RUN)
    with pytest.raises(NotFound):
        decide(repository.root, RUN, {})


def test_other_branches_are_not_runs(repository: Repository) -> None:
    user_git(repository.root, "branch", "mlxbun/mine")
    user_git(repository.root, "-c", "core.hooksPath=/dev/null", "checkout", "-q", "mlxbun/mine")
    user_git(repository.root, "commit", "-q", "--allow-empty", "-m", "mine")
    user_git(repository.root, "checkout", "-q", "main")
    assert not waiting(Git(repository.root))
