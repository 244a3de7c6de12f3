"""One synthesis, from the sources to one commit. Knows no terminal and no engine.

`ingest → segment → extract`, then `core.memory.planning` for `route → … → wikify`, then the writer.
Until the commit, nothing in the vault changes: a crash, `kill -9` or Ctrl-C leaves it as it was.
What a model was asked is kept (`core.memory.results`), so the next run does not ask it again. Only
after the commit are the conversations marked as done; if that did not happen any more, the next run
finds their facts in the ledger and writes nothing twice.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from core.errors import StoreCorrupt, UsageProblem, VaultBusy, VaultChanged
from core.jobs.lease import holder_words, try_lease
from core.memory.asking import Cancelled
from core.memory.echoes import find_echoes
from core.memory.events import Note, StageProgress, StageStarted, SynthesisSummary
from core.memory.ledger import LEDGER, parse_ledger
from core.memory.ledger_file import read_ledger
from core.memory.opening import open_memory
from core.memory.plan import dry_run
from core.memory.planning import plan_articles
from core.memory.redact.key import private_folder
from core.memory.reference_pages import keep_current
from core.memory.results import KeepingModel, ModelFailed, ResultStore
from core.memory.run_commit import changes_of, message_of, review_branch, run_id
from core.memory.stages.extract import extract
from core.memory.stages.ingest import ingest
from core.memory.stages.segment import segment
from core.memory.writer import Change, editing
from core.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from core.memory.asking import Model
    from core.memory.events import SynthesisEvent
    from core.memory.ledger import Ledger
    from core.memory.opening import Memory
    from core.memory.stages.ingest import SourceOptions
    from core.memory.stages.types import (
        ArticlePlan,
        Fact,
        Passage,
        Refusal,
        Stage,
    )
    from core.memory.store import ConversationHead
    from core.paths import Paths

_PLANS = 4
"""How often articles are planned, when files change meanwhile."""
_READING_SHARE = 0.6
"""Share of a budget after which no other conversation is read: the rest is for the articles."""
_WAIT_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class SynthesisOptions:
    """What a run does."""

    sources: SourceOptions | None
    """What to ingest before; None: only what was ingested already."""
    dry_run: bool = False
    """Whether only to say what there is to do; no model is opened, nothing is written."""
    model_id: str | None = None
    """For a dry run: whose speed to look up in the benchmark store. None: any model's."""
    since: datetime | None = None
    """Leave out conversations whose last turn is older; with a time zone."""
    limit: int | None = None
    """Conversations at most, the oldest first; at least 1."""
    budget_minutes: float | None = None
    """After 60% of this time no conversation is begun: the rest is for the articles of those that
    were read. More than 0."""
    review: bool = False
    """Whether the commit goes to a branch, to be accepted sentence by sentence."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            UsageProblem: a number is out of range.
        """
        if self.limit is not None and self.limit < 1:
            raise UsageProblem("The limit must be at least 1 conversation.")
        if self.budget_minutes is not None and not self.budget_minutes > 0:
            raise UsageProblem("The budget must be more than 0 minutes.")
        if self.since is not None and self.since.tzinfo is None:
            raise UsageProblem("The date of --since needs a time zone.")


@dataclass(kw_only=True)
class _Read:
    """What segment and extract have made of the conversations that are whole."""

    heads: list[ConversationHead] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    needed_later: set[str] = field(default_factory=set)
    """Keys of kept answers about conversations that are not whole."""


def synthesize(
    options: SynthesisOptions,
    *,
    vault_root: Path,
    paths: Paths,
    model: Callable[[], Model],
    on_event: Callable[[SynthesisEvent], None],
    cancelled: Callable[[], bool],
    clock: Callable[[], datetime],
) -> SynthesisSummary:
    """Run a synthesis.

    Args:
        options: what to do.
        vault_root: the vault's folder.
        paths: our folders.
        model: opens the model; called only if there is something to do. If the model has a `close`
            method, it is called at the end.
        on_event: called with each event; the summary comes last.
        cancelled: checked at every item and token.
        clock: the time, with a time zone.

    Raises:
        Cancelled: the run was cancelled; the vault is as it was.
        VaultMissing: there is no vault.
        VaultBusy: another run works on it, or another process writes to it.
        VaultChanged: files changed again and again while articles were planned.
        MlxbunError: sources, model, git or disk fail; the vault is as it was.
    """
    memory = open_memory(paths, vault_root)
    if options.dry_run:
        summary = dry_run(options, memory=memory, on_event=on_event, cancelled=cancelled)
        on_event(summary)
        return summary
    with _only_run(private_folder(memory.root) / "synthesis.lock"):
        run = _Run(options, memory, model, on_event, cancelled, clock)
        try:
            summary = run.work()
        except ModelFailed as problem:
            raise problem.error from problem
        keep_current(memory.vault, on_note=lambda note: on_event(Note(message=note)))
    on_event(summary)
    return summary


@contextmanager
def _only_run(path: Path) -> Iterator[None]:
    """Keep other runs on the same vault out, in this process and in others.

    Raises:
        VaultBusy: there is one.
    """
    try:
        lock = try_lease(path, what="mlxbun memory synthesize")
    except OSError as problem:
        raise StoreCorrupt(f"{path} cannot be written: {problem.strerror}.") from problem
    if lock is None:
        raise VaultBusy(
            f"A synthesis is running already ({holder_words(path)}).",
            hint="Wait until it has ended, or stop it with Ctrl-C.",
        )
    try:
        yield
    finally:
        lock.release()


class _Run:
    """One run. Used once, by one thread."""

    def __init__(
        self,
        options: SynthesisOptions,
        memory: Memory,
        open_model: Callable[[], Model],
        on_event: Callable[[SynthesisEvent], None],
        cancelled: Callable[[], bool],
        clock: Callable[[], datetime],
    ) -> None:
        self._options = options
        self._memory = memory
        self._open_model = open_model
        self._event = on_event
        self._cancelled = cancelled
        self._clock = clock
        self._began = clock()
        self._results = ResultStore(
            memory.folder, on_note=lambda note: on_event(Note(message=note))
        )

    def work(self) -> SynthesisSummary:
        """Run all stages and commit."""
        self._results.tidy()
        self._ingest()
        heads, complete = self._chosen()
        run = run_id(self._began, heads)
        if not heads:
            return self._summary(run, model="", note="Nothing new to synthesize.")
        # A run that was killed while it moved files is repaired before they are read. Otherwise its
        # facts would look written, and be removed after their conversations are done.
        with editing(self._memory.vault, wait=_WAIT_SECONDS):
            pass
        with _opened(self._open_model) as opened:
            model = KeepingModel(opened, self._results)
            read = self._read(heads, model)
            complete = complete and len(read.heads) == len(heads)
            plan, commit = self._written(run, read, model)
        self._memory.store.mark_synthesized(
            [(head.id, head.digest) for head in read.heads], run=run
        )
        self._results.remove(model.used - read.needed_later)
        return self._finished(run, read, plan, commit, model=model.name, complete=complete)

    # -- reading -------------------------------------------------------------------------------

    def _ingest(self) -> None:
        if self._options.sources is None:
            return
        ingest(
            vault=self._memory.vault,
            paths=self._memory.paths,
            sources=self._options.sources,
            store=self._memory.store,
            on_event=self._event,
            cancelled=self._cancelled,
        )

    def _chosen(self) -> tuple[tuple[ConversationHead, ...], bool]:
        """Return the conversations of this run, and whether they are all that are new."""
        waiting = self._memory.store.unsynthesized(since=self._options.since)
        chosen = waiting[: self._options.limit]
        return chosen, len(chosen) == len(waiting)

    def _read(self, heads: Sequence[ConversationHead], model: KeepingModel) -> _Read:
        """Segment and extract, one conversation after another, until the budget is used up."""
        passages: list[tuple[ConversationHead, tuple[Passage, ...]]] = []
        answers: list[set[str]] = []
        read = _Read()
        self._start("segment", counted(len(heads), "conversation"))
        for number, head in enumerate(heads):
            if self._is_over(number):
                break
            known = set(model.used)
            found, refusals = self._segmented(head, model)
            answers.append(model.used - known)
            passages.append((head, found))
            read.refusals += refusals
            self._event(StageProgress(stage="segment", done=number + 1, total=len(heads)))
        self._start("extract", counted(sum(len(found) for _, found in passages), "passage"))
        for number, (head, found) in enumerate(passages):
            if self._is_over(number):
                break
            self._extract(head, found, model, read)
            self._event(StageProgress(stage="extract", done=number + 1, total=len(passages)))
        read.needed_later = set().union(*answers[len(read.heads) :])
        return read

    def _segmented(
        self, head: ConversationHead, model: Model
    ) -> tuple[tuple[Passage, ...], tuple[Refusal, ...]]:
        conversation = self._memory.store.get(head.id)
        if conversation is None or conversation.digest != head.digest:
            return (), ()  # ingested anew or forgotten meanwhile
        return segment(conversation, model=model, cancelled=self._cancelled)

    def _extract(
        self,
        head: ConversationHead,
        passages: Sequence[Passage],
        model: Model,
        read: _Read,
    ) -> None:
        conversation = self._memory.store.get(head.id)
        if conversation is None or conversation.digest != head.digest:
            return
        is_echo = find_echoes(self._memory, conversation)
        for passage in passages:
            facts, refusals = extract(
                passage,
                conversation,
                model=model,
                is_echo=is_echo,
                cancelled=self._cancelled,
            )
            read.facts += facts
            read.refusals += refusals
        read.heads.append(head)

    def _is_over(self, done: int) -> bool:
        """Return whether to begin no other conversation; the first one is always begun.

        Raises:
            Cancelled: the run was cancelled.
        """
        if self._cancelled():
            raise Cancelled
        budget = self._options.budget_minutes
        if budget is None or not done:
            return False
        return self._clock() - self._began >= timedelta(minutes=budget * _READING_SHARE)

    # -- writing -------------------------------------------------------------------------------

    def _written(self, run: str, read: _Read, model: Model) -> tuple[ArticlePlan, str | None]:
        """Plan the articles and commit them; plan again what changed meanwhile."""
        for attempt in range(1, _PLANS + 1):
            ledger, text, digest = self._ledger()
            plan = plan_articles(
                read.facts,
                vault=self._memory.vault,
                ledger=ledger,
                model=model,
                cancelled=self._cancelled,
                on_event=self._event,
                refusals=read.refusals,
            )
            changes = changes_of(plan, text, digest, run=run)
            if self._cancelled():
                raise Cancelled
            if not changes:
                return plan, None
            try:
                return plan, self._commit(run, changes, plan, read, model)
            except VaultChanged as problem:
                if attempt == _PLANS:
                    raise
                paths = ", ".join(problem.paths[:5]) or "files"
                self._note(f"{paths} changed meanwhile: planning again.")
        raise AssertionError("unreachable")

    def _ledger(self) -> tuple[Ledger, str, str | None]:
        data = read_ledger(self._memory.root)
        if data is None:
            return parse_ledger(""), "", None
        text = data.decode("utf-8", "surrogateescape")
        ledger = parse_ledger(text)
        if ledger.broken:
            self._note(f"{ledger.broken} lines of {LEDGER} cannot be read; they are left as is.")
        return ledger, text, hashlib.sha256(data).hexdigest()

    def _commit(
        self,
        run: str,
        changes: Sequence[Change],
        plan: ArticlePlan,
        read: _Read,
        model: Model,
    ) -> str:
        message = message_of(plan, conversations=len(read.heads), model=model.name)
        sources = tuple(dict.fromkeys(settled.fact.source for settled in plan.settled))
        with editing(self._memory.vault, wait=_WAIT_SECONDS) as edit:
            if self._options.review:
                return edit.commit_on_branch(
                    review_branch(run), changes, message, run=run, sources=sources
                )
            return edit.commit(changes, message, run=run, sources=sources)

    # -- telling -------------------------------------------------------------------------------

    def _start(self, stage: Stage, message: str) -> None:
        if self._cancelled():
            raise Cancelled
        self._event(StageStarted(stage=stage, message=message))

    def _note(self, message: str) -> None:
        self._event(Note(message=message))

    def _finished(
        self,
        run: str,
        read: _Read,
        plan: ArticlePlan,
        commit: str | None,
        *,
        model: str,
        complete: bool,
    ) -> SynthesisSummary:
        created = tuple(found.article for found in plan.patched if found.before is None)
        changed = tuple(found.article for found in plan.patched if found.before is not None)
        facts = sum(settled.state == "written" for settled in plan.settled)
        note = (
            f"{counted(facts, 'fact')} from {counted(len(read.heads), 'conversation')}: "
            f"{counted(len(created), 'new article')}, {counted(len(changed), 'changed article')}"
            f", {counted(len(plan.refusals), 'refused proposal')}."
        )
        if not complete:
            note += " Conversations are left: run it again to continue."
        return self._summary(
            run,
            model=model,
            note=note,
            commit=commit,
            branch=review_branch(run) if commit and self._options.review else None,
            conversations=len(read.heads),
            tokens=sum(head.tokens for head in read.heads),
            facts=facts,
            created=created,
            changed=changed,
            refused=len(plan.refusals),
            complete=complete,
        )

    def _summary(self, run: str, *, model: str, note: str, **values: Any) -> SynthesisSummary:
        nothing: dict[str, Any] = dict.fromkeys(("commit", "branch"))
        nothing |= dict.fromkeys(("conversations", "tokens", "facts", "refused"), 0)
        nothing |= {"created": (), "changed": (), "complete": True}
        seconds = (self._clock() - self._began).total_seconds()
        return SynthesisSummary(
            run=run, model=model, note=note, seconds=seconds, **(nothing | values)
        )


@contextmanager
def _opened(open_model: Callable[[], Model]) -> Iterator[Model]:
    model = open_model()
    try:
        yield model
    finally:
        close = getattr(model, "close", None)
        if close is not None:
            close()
