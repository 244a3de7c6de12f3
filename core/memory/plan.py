"""What a synthesis would do, without a model and without writing anything that stays."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from core.figures import FigureStore
from core.memory.asking import RULES, Cancelled
from core.memory.events import Note, SynthesisSummary
from core.memory.stages.ingest import ingest
from core.memory.store import ConversationStore
from core.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.figures import Run
    from core.memory.events import SynthesisEvent
    from core.memory.opening import Memory
    from core.memory.pipeline import SynthesisOptions
    from core.memory.store import ConversationHead

_PROMPT_SHARE = 2.5
"""Tokens that all questions together show, as a multiple of those of the conversations."""
_ANSWER_SHARE = 0.4
"""Tokens of all answers, in the same way."""


def dry_run(
    options: SynthesisOptions,
    *,
    memory: Memory,
    on_event: Callable[[SynthesisEvent], None],
    cancelled: Callable[[], bool],
) -> SynthesisSummary:
    """Return what a run would do.

    Sources are read into a store that is thrown away afterwards.

    Raises:
        Cancelled: it was cancelled.
        MlxbunError: a source cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="mlxbun-plan-") as folder:
        store = _copied_store(memory, Path(folder))
        if options.sources is not None:
            ingest(
                vault=memory.vault,
                paths=memory.paths,
                sources=options.sources,
                store=store,
                on_event=on_event,
                cancelled=cancelled,
            )
        waiting = store.unsynthesized(since=options.since)
    if cancelled():
        raise Cancelled
    chosen = waiting[: options.limit]
    seconds, note = _estimate(chosen, options.model_id, memory)
    on_event(Note(message=note))
    return _summary(chosen, seconds, note, complete=len(chosen) == len(waiting))


def _copied_store(memory: Memory, folder: Path) -> ConversationStore:
    """Copy the store, so that what was ingested before is known."""
    there = memory.folder / "conversations.db"
    if there.is_file():
        with _opened(there, "ro") as original, _opened(folder / there.name, "rwc") as copy:
            original.backup(copy)
    return memory.store_in(folder, on_note=lambda _note: None)


def _opened(path: Path, mode: str) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True))


def _estimate(
    chosen: Sequence[ConversationHead], model_id: str | None, memory: Memory
) -> tuple[float, str]:
    """Return the seconds that a run would take (0: unknown), and a sentence about it."""
    tokens = sum(head.tokens for head in chosen)
    what = f"{counted(len(chosen), 'conversation')} with about {tokens:,} tokens would be read"
    if not chosen:
        return 0.0, "Nothing new to synthesize."
    if model_id == RULES:
        return 0.0, f"{what}, by fixed rules."
    speed = _speed(model_id, memory)
    if speed is None:
        hint = "run `mlxbun bench` to have it estimated"
        return 0.0, f"{what}; how long it takes is unknown ({hint})."
    prefill, decode, model = speed
    seconds = tokens * _PROMPT_SHARE / prefill + tokens * _ANSWER_SHARE / decode
    return seconds, f"{what}, in about {_duration(seconds)} with {model}."


def _speed(model_id: str | None, memory: Memory) -> tuple[float, float, str] | None:
    """Return prefill and decode of one row in tokens/s, and whose they are; None: unknown."""
    for run in FigureStore(memory.paths.figures_file).runs(model_id, limit=20):
        prefill, decode = _figure(run, "prefill"), _figure(run, "decode")
        if prefill and decode:
            return prefill, decode, run.model_id
    return None


def _figure(run: Run, kind: str) -> float:
    """Return a figure of a run: of the fewest rows, of the longest prompt; 0: not measured."""
    found = [figure for figure in run.figures if figure.kind == kind]
    if not found:
        return 0.0
    sizes = sorted(found, key=lambda figure: figure.size)
    return sizes[0].per_row if kind == "decode" else sizes[-1].median


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    minutes = round(seconds / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{seconds / 3600:.1f} hours"


def _summary(
    chosen: Sequence[ConversationHead], seconds: float, note: str, *, complete: bool
) -> SynthesisSummary:
    return SynthesisSummary(
        run="",
        commit=None,
        branch=None,
        model="",
        conversations=len(chosen),
        tokens=sum(head.tokens for head in chosen),
        seconds=seconds,
        facts=0,
        created=(),
        changed=(),
        refused=0,
        complete=complete,
        note=note,
    )
