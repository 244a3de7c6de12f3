"""From facts to articles: `route → create → section-route → patch → link → wikify`. Writes nothing.

Between the stages that ask the model stands what does not: which facts the ledger knows, which
fact holds (`core.memory.truth`), and at the end the gate (`core.memory.validate`), once more for
every article as a whole. The plan is the same for the same facts, vault, ledger and answers, so
that a run that broke off comes to the same plan from the answers that were kept.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import MlxbunError
from core.memory.article import parse, sentences
from core.memory.events import Note, StageStarted
from core.memory.names import name_key
from core.memory.plain import unlinked
from core.memory.stages.catalogue import Catalogue
from core.memory.stages.create import create
from core.memory.stages.link import link
from core.memory.stages.patch import patch
from core.memory.stages.route import route
from core.memory.stages.section_route import ToPlace, section_route
from core.memory.stages.types import ArticlePlan, Patched, Settled, TalkPage
from core.memory.stages.weaving import Work, citation_line
from core.memory.stages.wikify import wikify
from core.memory.talk import SYNTHESIS, disputed, left_out, refused, with_entries
from core.memory.truth import Standing, settle, without_until
from core.memory.validate import faults
from core.memory.vault import path_of, talk_path
from core.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Sized

    from core.memory.asking import Model
    from core.memory.events import SynthesisEvent
    from core.memory.ledger import Ledger
    from core.memory.stages.catalogue import Known, Pages
    from core.memory.stages.types import Draft, Fact, Placed, Refusal, Stage
    from core.memory.stages.weaving import Woven
    from core.memory.talk import Entry
    from core.memory.truth import Settlement


def plan_articles(
    facts: Iterable[Fact],
    *,
    vault: Pages,
    ledger: Ledger,
    model: Model,
    cancelled: Callable[[], bool],
    on_event: Callable[[SynthesisEvent], None],
    refusals: Sequence[Refusal] = (),
) -> ArticlePlan:
    """Return what facts change in a vault.

    Args:
        facts: what `extract` found; those that the ledger knows are left out.
        vault: the articles as they are.
        ledger: what was written before.
        model: proposes.
        cancelled: checked at every item and token.
        on_event: called when a stage begins.
        refusals: those of earlier stages, for the Talk pages.

    Raises:
        Cancelled: the run was cancelled.
        VaultMissing: there is no vault.
        MlxbunError: the model or the vault fails.
    """
    planner = _Planner(Catalogue(vault), ledger, model, cancelled, on_event)
    planner.refusals += refusals
    return planner.plan(facts)


@dataclass
class _Board:
    """What is known of one article while it is planned."""

    facts: list[Fact] = field(default_factory=list)
    settlement: Settlement | None = None
    draft: Draft | None = None


class _Planner:
    """One plan. Used once."""

    def __init__(
        self,
        catalogue: Catalogue,
        ledger: Ledger,
        model: Model,
        cancelled: Callable[[], bool],
        on_event: Callable[[SynthesisEvent], None],
    ) -> None:
        self.catalogue, self.ledger, self.model = catalogue, ledger, model
        self.cancelled, self.on_event = cancelled, on_event
        self.refusals: list[Refusal] = []
        self.notes: list[tuple[str, Entry]] = []
        """Talk entries with the names of their articles; empty: `SYNTHESIS`."""
        self.settled: dict[str, Settled] = {}

    def plan(self, facts: Iterable[Fact]) -> ArticlePlan:
        """Run the stages."""
        unique = list({fact.id: fact for fact in facts}.values())
        fresh = [fact for fact in unique if not self.ledger.knows(fact.id)]
        works = self._works(fresh)
        woven = self._woven(works)
        patched = self._patched(woven)
        return ArticlePlan(
            patched=patched,
            talk=self._talk(),
            settled=tuple(self.settled[f.id] for f in fresh if f.id in self.settled),
            refusals=tuple(self.refusals),
            known=tuple(fact.id for fact in unique if self.ledger.knows(fact.id)),
        )

    # -- where facts go ------------------------------------------------------------------------

    def _works(self, facts: Sequence[Fact]) -> list[Work]:
        """Route facts, settle what they mean, and place what becomes a sentence."""
        in_time = sorted(facts, key=lambda fact: (fact.date is None, fact.date or ""))
        boards = self._routed(in_time)
        new = [name for name in boards if self._known(name) is None]
        for name, board in boards.items():
            self._settle(name, board)
        self._create({name: boards[name] for name in new})
        placed = self._placed(boards)
        return [
            Work(
                article=name,
                title=self._title(name, board),
                known=self._known(name),
                draft=board.draft,
                settlement=board.settlement,
                placed=placed,
            )
            for name, board in boards.items()
            if board.settlement is not None
        ]

    def _routed(self, facts: Sequence[Fact]) -> dict[str, _Board]:
        self._start("route", facts, "fact")
        routing = route(facts, catalogue=self.catalogue, model=self.model, cancelled=self.cancelled)
        self.refusals += routing.refusals
        self.notes += routing.notes
        for fact in routing.unclear:
            self._settled(fact, SYNTHESIS, "talk")
        by_id = {fact.id: fact for fact in facts}
        boards: dict[str, _Board] = defaultdict(_Board)
        for item in routing.routed:
            boards[item.article].facts.append(by_id[item.fact])
        return dict(boards)

    def _known(self, name: str) -> Known | None:
        return self.catalogue.known(name) if name in self.catalogue.names else None

    def _settle(self, name: str, board: _Board) -> None:
        known = self._known(name)
        standing: tuple[Standing, ...] = ()
        names: tuple[str, ...] = tuple({fact.subject for fact in board.facts})
        if known is not None:
            names += (known.article.title, *known.article.aliases)
            standing = tuple(
                Standing(
                    text=text, citations=known.citations(sentence), labels=len(sentence.labels)
                )
                for sentence, text in zip(known.sentences, known.texts, strict=True)
            )
        board.settlement = settle(
            board.facts, standing, article=name, names=names, ledger=self.ledger
        )
        for dispute in board.settlement.disputes:
            self.notes.append((name, disputed(dispute)))
        for fact in board.settlement.out:
            self._settled(fact, name, "talk")

    def _create(self, boards: Mapping[str, _Board]) -> None:
        articles = {}
        for name, board in boards.items():
            inserts = board.settlement.inserts if board.settlement else ()
            if inserts:
                articles[name] = [item.fact for item in inserts]
        self._start("create", articles, "new article")
        drafts, refusals = create(
            articles, catalogue=self.catalogue, model=self.model, cancelled=self.cancelled
        )
        self.refusals += refusals
        for draft in drafts:
            boards[draft.article].draft = draft

    def _placed(self, boards: Mapping[str, _Board]) -> dict[str, Placed]:
        articles = []
        for name, board in boards.items():
            inserts = board.settlement.inserts if board.settlement else ()
            lead = board.draft.lead if board.draft else ()
            facts = tuple(item.fact for item in inserts if item.fact.id not in lead)
            if not facts:
                continue
            known = self._known(name)
            box = known.article.infobox if known else None
            by_id = {item.fact.id: item.fact for item in inserts}
            articles.append(
                ToPlace(
                    article=name,
                    kind=box.kind if box else facts[0].kind,
                    known=known,
                    facts=facts,
                    lead=tuple(by_id[fact].sentence for fact in lead if fact in by_id),
                )
            )
        self._start("section-route", articles, "article")
        placed, refusals = section_route(articles, model=self.model, cancelled=self.cancelled)
        self.refusals += refusals
        return {place.fact: place for place in placed}

    def _title(self, name: str, board: _Board) -> str:
        """Return the title of a new article: the subject where the file name differs from it."""
        subject = board.facts[0].subject if board.facts else name
        is_plain = " (" not in name and name_key(subject) != name_key(name)
        return subject if is_plain else name

    # -- what articles say ---------------------------------------------------------------------

    def _woven(self, works: Sequence[Work]) -> tuple[Woven, ...]:
        self._start("patch", works, "article")
        woven, refusals = patch(works, model=self.model, cancelled=self.cancelled)
        self.refusals += refusals
        for work, article in zip(works, woven, strict=True):
            for fact in work.settlement.same:
                self._settled(fact, article.article, "written")
        woven = tuple(article for article in woven if self._stands(article))
        self._start("link", woven, "article")
        woven, refusals = link(
            woven, catalogue=self.catalogue, model=self.model, cancelled=self.cancelled
        )
        self.refusals += refusals
        self._start("wikify", woven, "article")
        woven, refusals = wikify(
            woven,
            known=self._known,
            names=self.catalogue.meant,
            ledger=self.ledger,
            model=self.model,
            cancelled=self.cancelled,
        )
        self.refusals += refusals
        return woven

    def _stands(self, article: Woven) -> bool:
        """Return whether an article has something to say; else nothing may link to a new one."""
        for fact, reason in article.failed:
            self._fail(article, fact, reason)
        found = faults(article.base, article.text, article.allowed)
        facts = _facts_in(article)
        for fact in facts if found else ():
            self._fail(article, fact, found[0])
        if found or (article.digest is None and not facts):
            if article.digest is None:
                self.catalogue.remove(article.article)
            return False
        return article.text != article.base

    def _patched(self, woven: Iterable[Woven]) -> tuple[Patched, ...]:
        """Pass every article through the gate once more; settle the facts that are in it."""
        patched = []
        for article in woven:
            found = faults(article.base, article.text, article.allowed)
            facts = _facts_in(article)
            if found:
                for fact in facts:
                    self._fail(article, fact, found[0])
                continue
            patched.append(
                Patched(
                    article=article.article,
                    path=path_of(article.article),
                    before=article.digest,
                    text=article.text,
                    facts=tuple(fact.id for fact in facts),
                )
            )
            self._settle_written(article, facts)
        return tuple(sorted(patched, key=lambda item: item.path))

    def _settle_written(self, article: Woven, facts: Sequence[Fact]) -> None:
        by_line = {line: label for label, line in article.allowed.notes.items()}
        texts: dict[str, str] = {}
        for sentence in sentences(parse(article.text)):
            for label in sentence.labels:
                texts.setdefault(label, without_until(unlinked(sentence.text)))
        for fact in facts:
            label = by_line.get(citation_line(fact), "")
            self._settled(fact, article.article, "written", texts.get(label, ""))

    def _fail(self, article: Woven, fact: Fact, reason: str) -> None:
        self.notes.append((article.article, left_out(reason, fact)))
        self._settled(fact, article.article, "talk")

    def _settled(self, fact: Fact, article: str, state: str, sentence: str = "") -> None:
        self.settled[fact.id] = Settled(
            fact=fact,
            article=article,
            state=state,  # type: ignore[arg-type]
            sentence=sentence,
        )

    # -- what a person should see --------------------------------------------------------------

    def _talk(self) -> tuple[TalkPage, ...]:
        entries: dict[str, list[Entry]] = defaultdict(list)
        for item in self.refusals:
            entries[item.article or SYNTHESIS].append(refused(item))
        for name, entry in self.notes:
            entries[name or SYNTHESIS].append(entry)
        pages = (self._page(name, some) for name, some in sorted(entries.items()))
        return tuple(page for page in pages if page is not None)

    def _page(self, name: str, entries: Sequence[Entry]) -> TalkPage | None:
        """Return a page with more entries; None: it has them all, or cannot be changed."""
        path = talk_path(name)
        try:
            page = self.catalogue.page(path)
        except MlxbunError as failure:
            self.on_event(Note(message=f"{path} cannot be changed: {failure.message}"))
            return None
        if page is not None and page.warning is not None:
            self.on_event(Note(message=f"{path} cannot be changed: {page.warning}"))
            return None
        old = page.text if page else ""
        text = with_entries(old, name, entries)
        if text == old:
            return None
        return TalkPage(path=path, before=page.digest if page else None, text=text)

    def _start(self, stage: Stage, items: Sized, noun: str) -> None:
        self.on_event(StageStarted(stage=stage, message=counted(len(items), noun)))


def _facts_in(article: Woven) -> list[Fact]:
    """Return the facts that a run has put into an article."""
    facts = [fact for item in article.inserts for fact in (item.fact, *item.also)]
    return [*facts, *article.cited]
