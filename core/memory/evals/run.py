"""Fill a new vault with the corpus, run after run, and measure what came of it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from core.errors import UsageProblem
from core.memory.asking import Cancelled
from core.memory.evals.echo import facts_and_sentences, write_chat
from core.memory.evals.labels import export, read_corpus
from core.memory.evals.noisy import NoisyModel
from core.memory.evals.oracle import OracleModel
from core.memory.evals.score import Score, score
from core.memory.git import Git
from core.memory.opening import open_memory
from core.memory.pipeline import SynthesisOptions, synthesize
from core.memory.setup import setup_vault
from core.memory.stages.ingest import SourceOptions
from core.paths import Paths, atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.memory.asking import Model, Question
    from core.memory.evals.labels import Corpus, LabelledConversation, Part
    from core.memory.events import SynthesisEvent, SynthesisSummary
    from core.memory.opening import Memory

ROUNDS = 5
"""Chats that repeat what memory says, each read by a run of its own."""


@dataclass(frozen=True, kw_only=True)
class EvalReport:
    """What `run_eval` returns."""

    part: Part
    """The part of the corpus."""
    model: str
    """Name of the model."""
    score: Score
    """What was measured on the vault."""
    runs: int
    """Runs of the pipeline, without the last one, which finds nothing new."""
    refused: int
    """Proposals of the model that were refused."""
    steady: bool
    """Whether another run over the same sources changed nothing."""
    echo_facts: int
    """By how many citations articles grew in chats that repeat what memory says."""
    echo_sentences: int
    """By how many sentences."""
    seconds: float
    """Time of all runs."""
    vault: str
    """Where the vault lies."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "part": self.part,
            "model": self.model,
            **self.score.as_json(),
            "runs": self.runs,
            "refused": self.refused,
            "steady": self.steady,
            "echo_facts": self.echo_facts,
            "echo_sentences": self.echo_sentences,
            "seconds": round(self.seconds, 1),
            "vault": self.vault,
        }


def built_in_model(name: str, part: Part) -> Model | None:
    """Return a model that needs no language model; None: the name is another one's."""
    if name == "oracle":
        return OracleModel(read_corpus(part))
    if name == "noisy":
        return NoisyModel(read_corpus(part))
    if name == "rules":
        from core.memory.rules.model import RulesModel

        return RulesModel()
    return None


def run_eval(
    model: Callable[[], Model],
    *,
    part: Part,
    workdir: Path,
    on_event: Callable[[SynthesisEvent], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> EvalReport:
    """Run the pipeline over a part of the corpus and measure the vault.

    Args:
        model: opens the model, once; its `close`, if it has one, is called at the end.
        part: the part of the corpus.
        workdir: an empty or new folder; vault, caches and exports stay in it.
        on_event: called with the events of all runs.
        cancelled: checked as in `synthesize`.
        clock: the time, with a time zone.

    Raises:
        UsageProblem: the folder is not empty.
        Cancelled: it was cancelled.
        MlxbunError: what `synthesize` raises.
    """
    bench = Bench.create(part, workdir)
    began = clock()
    opened = _Once(model)
    try:
        summaries = [
            bench.synthesize(batch, opened.get, on_event=on_event, cancelled=cancelled, clock=clock)
            for batch in bench.corpus.batches()
        ]
        again = bench.synthesize(
            bench.corpus.conversations,
            opened.get,
            on_event=on_event,
            cancelled=cancelled,
            clock=clock,
        )
        found = bench.score()
        growth = bench.chat(
            opened.get, rounds=ROUNDS, on_event=on_event, cancelled=cancelled, clock=clock
        )
    finally:
        name = opened.close()
    return EvalReport(
        part=part,
        model=name,
        score=found,
        runs=len(summaries),
        refused=sum(summary.refused for summary in summaries),
        steady=again.commit is None,
        echo_facts=growth[0],
        echo_sentences=growth[1],
        seconds=(clock() - began).total_seconds(),
        vault=str(bench.root),
    )


class Bench:
    """A vault in a folder of its own, with the corpus that goes into it and its caches."""

    def __init__(self, part: Part, workdir: Path) -> None:
        """Take a folder in which `create` has set up a vault."""
        self.corpus: Corpus = read_corpus(part)
        self.root = workdir / "vault"
        self.paths = Paths(
            home=workdir / "home", cache=workdir / "cache", hub_cache=workdir / "hub"
        )
        self._exports = workdir / "exports"

    @classmethod
    def create(cls, part: Part, workdir: Path) -> Bench:
        """Set up the vault.

        Raises:
            UsageProblem: the folder is not empty.
            MlxbunError: the vault cannot be set up.
        """
        if workdir.exists() and any(workdir.iterdir()):
            raise UsageProblem(
                f"{workdir} is not empty.", hint="Name a new folder for the vault and its caches."
            )
        bench = cls(part, workdir)
        setup_vault(bench.root, git=Git(bench.root), import_from=None, on_note=lambda _: None)
        return bench

    @property
    def memory(self) -> Memory:
        """The vault, opened anew."""
        return open_memory(self.paths, self.root)

    def synthesize(
        self,
        conversations: tuple[LabelledConversation, ...],
        model: Callable[[], Model],
        *,
        on_event: Callable[[SynthesisEvent], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> SynthesisSummary:
        """Let conversations arrive as an export, and run the pipeline."""
        file = self._exports / f"{conversations[0].id}-{len(conversations)}" / "conversations.json"
        with atomic_write(file) as target:
            target.write(json.dumps(export(conversations), ensure_ascii=False).encode())
        sources = SourceOptions(exports=(file,))
        return self.run(sources, model, on_event=on_event, cancelled=cancelled, clock=clock)

    def run(
        self,
        sources: SourceOptions,
        model: Callable[[], Model],
        *,
        on_event: Callable[[SynthesisEvent], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> SynthesisSummary:
        """Run the pipeline over some sources."""
        return synthesize(
            SynthesisOptions(sources=sources),
            vault_root=self.root,
            paths=self.paths,
            model=model,
            on_event=on_event,
            cancelled=cancelled,
            clock=clock,
        )

    def chat(
        self,
        model: Callable[[], Model],
        *,
        rounds: int,
        on_event: Callable[[SynthesisEvent], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> tuple[int, int]:
        """Let chats repeat what memory says, and return by how much the articles grew.

        Returns:
            Citations and sentences; both should be 0.
        """
        before = facts_and_sentences(self.memory.vault)
        for turn in range(rounds):
            write_chat(self.memory, turn, clock() + timedelta(minutes=turn))
            sources = SourceOptions(sessions=self.paths.sessions_folder)
            self.run(sources, model, on_event=on_event, cancelled=cancelled, clock=clock)
        after = facts_and_sentences(self.memory.vault)
        return after[0] - before[0], after[1] - before[1]

    def score(self) -> Score:
        """Measure the vault as it is."""
        return score(self.root, self.corpus, kept=self.paths.memory_folder, texts=self.texts())

    def texts(self) -> dict[tuple[str, str], str]:
        """Return the user turns of the corpus as they were stored, with placeholders."""
        store = self.memory.store
        found: dict[tuple[str, str], str] = {}
        for source, message in self.corpus.user_texts:
            conversation = store.get(source)
            turn = conversation.turn(message) if conversation else None
            if turn is not None:
                found[source, message] = turn.text
        return found


class _Once:
    """Opens a model when it is first wanted, and keeps it open across runs."""

    def __init__(self, model: Callable[[], Model]) -> None:
        self._open = model
        self._model: Model | None = None

    def get(self) -> Model:
        if self._model is None:
            self._model = self._open()
        return _Shared(self._model)

    def close(self) -> str:
        """Close the model and return its name; empty: it was never wanted."""
        if self._model is None:
            return ""
        with suppress(Cancelled):
            if close := getattr(self._model, "close", None):
                close()
        return self._model.name


class _Shared:
    """A model without its `close`, which a single run would call."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        return self._model.answer(question, cancelled=cancelled)
