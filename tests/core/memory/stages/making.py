"""Facts, vaults and models for the tests of the stages from `route` to `wikify`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from core.memory.asking import Question
from core.memory.ledger import Ledger, appended, entry_of, parse_ledger
from core.memory.planning import plan_articles
from core.memory.stages.types import ArticlePlan, EntityKind, Fact, Patched, TalkPage
from core.memory.vault import Vault
from tests.core.memory.scripted import ScriptedModel, never

Answer = Callable[[Question], Mapping[str, Any]]


def fact(
    sentence: str,
    *,
    subject: str = "Ada Lind",
    about: str = "home city",
    value: str = "",
    date: str | None = "2026-03-01",
    exclusive: bool = False,
    kind: EntityKind = "person",
    source: str = "session:one",
    message: str = "m1",
    quote: str = "",
) -> Fact:
    """Return a fact; its value is the last word of its sentence, its quote the sentence."""
    words = quote or sentence
    key = "\0".join((source, message, words, subject, about))
    return Fact(
        id=hashlib.sha256(key.encode()).hexdigest()[:16],
        subject=subject,
        kind=kind,
        property=about,
        value=value or sentence.rstrip(".").rsplit(" ", 1)[-1],
        exclusive=exclusive,
        sentence=sentence,
        source=source,
        message=message,
        quote=words,
        date=date,
    )


def agreeable(question: Question) -> Mapping[str, Any]:
    """Answer as a careful model would, without changing a text."""
    data = question.data
    match question.stage:
        case "route":
            return {"article": data["candidates"][0]["article"], "qualifier": ""}
        case "create":
            return {"type": "", "aliases": [], "lead": [data["facts"][0]["id"]]}
        case "section-route":
            places = [{"fact": f["id"], "anchor": "", "heading": "Notable"} for f in data["facts"]]
            return {"places": places}
        case "patch":
            return {"text": data["draft"]}
        case "link":
            keys = ("target", "anchor", "words")
            return {"links": [{key: c[key] for key in keys} for c in data["candidates"]]}
        case _:
            return {"order": [], "see_also": [item["article"] for item in data["related"]]}


def model(**answers: Answer | Mapping[str, Any]) -> ScriptedModel:
    """Return a model that answers some stages (`section_route`) its own way, others agreeably."""
    by_stage = {stage.replace("_", "-"): answer for stage, answer in answers.items()}

    def answer(question: Question) -> Mapping[str, Any]:
        own = by_stage.get(question.stage, agreeable)
        return own(question) if callable(own) else own

    return ScriptedModel(answer)


def pages(plan: ArticlePlan) -> list[Patched | TalkPage]:
    """Return all files that a plan writes."""
    return [*plan.patched, *plan.talk]


class Wiki:
    """A vault without git, to which plans are applied by hand."""

    def __init__(self, root: Path, articles: Mapping[str, str] | None = None) -> None:
        self.root = root
        for folder in ("articles", "Reference", "Meta", "Talk"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in (articles or {}).items():
            self.write(name, text)
        self.ledger_text = ""

    @property
    def vault(self) -> Vault:
        return Vault(self.root)

    @property
    def ledger(self) -> Ledger:
        return parse_ledger(self.ledger_text)

    def write(self, name: str, text: str) -> None:
        (self.root / f"articles/{name}.md").write_text(text)

    def read(self, name: str) -> str:
        return (self.root / f"articles/{name}.md").read_text()

    def talk(self, name: str = "Synthesis") -> str:
        path = self.root / f"Talk/{name}.md"
        return path.read_text() if path.exists() else ""

    def all_talk(self) -> str:
        return "\n".join(path.read_text() for path in sorted((self.root / "Talk").iterdir()))

    def names(self) -> list[str]:
        return sorted(path.stem for path in (self.root / "articles").iterdir())

    def plan(self, facts: Iterable[Fact], by: ScriptedModel | None = None) -> ArticlePlan:
        return plan_articles(
            facts,
            vault=self.vault,
            ledger=self.ledger,
            model=by or model(),
            cancelled=never,
            on_event=lambda event: None,
        )

    def add(self, *facts: Fact, by: ScriptedModel | None = None) -> ArticlePlan:
        """Plan and write."""
        plan = self.plan(facts, by)
        for page in pages(plan):
            (self.root / page.path).write_text(page.text)
        entries = [entry_of(settled, run="r") for settled in plan.settled]
        self.ledger_text = appended(self.ledger_text, entries)
        return plan
