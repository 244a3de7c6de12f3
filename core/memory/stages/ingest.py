"""First stage: sources become conversations in the store, redacted, only what is new or changed.

Files that are as they were are not read again. A source that is broken costs only itself: what
cannot be used is counted, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.memory.asking import Cancelled
from core.memory.echoes import strip_marked
from core.memory.events import StageProgress, StageStarted
from core.memory.redact import redactor as redacting
from core.memory.sources.find import SourceOptions, source_files
from core.memory.sources.raw import ReadLog, digest_of, finish
from core.registry.files import open_regular
from core.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.memory.events import Note
    from core.memory.redact.redactor import Redactor
    from core.memory.sources.find import SourceFile
    from core.memory.sources.raw import RawConversation
    from core.memory.store import ConversationStore, Outcome
    from core.memory.turns import SourceConversation
    from core.memory.vault import HasRoot
    from core.paths import Paths


__all__ = ["IngestResult", "Skipped", "SourceOptions", "ingest"]

VERSION = 1
"""Raised when readers find more than before: sources are read again then."""
_BATCH = 200  # conversations of one write
_BATCH_CHARACTERS = 8_000_000
_RACY_NS = 2 * 10**9  # a file this young may change again without looking changed
_PIECE = 2**20


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """Something that was left out."""

    reason: str
    """Why, or what it is: `a ZIP that is encrypted`."""
    count: int
    """How many of them."""


@dataclass(frozen=True, kw_only=True)
class IngestResult:
    """What came of the sources."""

    new: int
    """Conversations that were not in the store."""
    changed: int
    """Conversations that say something else than before."""
    unchanged: int
    """Conversations that are as they were."""
    skipped: tuple[Skipped, ...]
    """What was left out, the most frequent first."""
    broken_lines: int
    """Lines and objects that are not JSON."""
    cut: int
    """Turns of which only the beginning is kept."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "skipped": [{"reason": each.reason, "count": each.count} for each in self.skipped],
            "broken_lines": self.broken_lines,
            "cut": self.cut,
        }


def ingest(
    *,
    vault: HasRoot,
    paths: Paths,
    sources: SourceOptions | None,
    store: ConversationStore,
    on_event: Callable[[StageStarted | StageProgress | Note], None],
    cancelled: Callable[[], bool],
) -> IngestResult:
    """Read sources into the store.

    Args:
        vault: whose store it is; its key redacts, and its own notes are not a source.
        paths: our folders.
        sources: which; None: mlxbun's own chats.
        store: takes the conversations.
        on_event: called at every file.
        cancelled: checked at every file, and regularly within one.

    Raises:
        Cancelled: it was cancelled; what was stored before stays.
        NotFound: an export or a folder of notes that was named is not there.
        StoreCorrupt: the vault's key or the store cannot be read.
        MlxbunError: the store cannot be written.
    """

    def check() -> None:
        if cancelled():
            raise Cancelled

    wanted = sources or SourceOptions(sessions=paths.sessions_folder)
    log = ReadLog(check=check)
    files = list(source_files(wanted, log, vault=vault.root))
    on_event(StageStarted(stage="ingest", message=counted(len(files), "file")))
    work = _Ingestion(store, redacting.redactor(vault), log)
    for number, file in enumerate(files, 1):
        check()
        work.read(file)
        on_event(StageProgress(stage="ingest", done=number, total=len(files)))
    return work.result()


class _Ingestion:
    """One ingestion. Used once."""

    def __init__(self, store: ConversationStore, redactor: Redactor, log: ReadLog) -> None:
        self._store = store
        self._redactor = redactor
        self._log = log
        self._outcomes: Counter[Outcome] = Counter()
        self._waiting: list[SourceConversation] = []
        self._characters = 0  # of those that wait

    def read(self, file: SourceFile) -> None:
        """Read a file, unless it is as it was."""
        name = str(file.path.absolute())
        log = ReadLog(check=self._log.check)
        try:
            known = _State.parse(self._store.file_state(name))
            state = _State.of(file.path)
            if known is not None and known.same_stamp(state):
                self._leave(known)
                return
            state = replace(state, digest=_digest(file.path, log))
            if known is not None and known.digest == state.digest:
                self._leave(known)
                state = replace(known, size=state.size, mtime=state.mtime)
            else:
                state = self._read(file, name, state, log)
        except OSError as problem:
            self._log.skip(f"a file that cannot be read: {problem.strerror or problem}")
            return
        self._store.remember_file(name, state.written())

    def result(self) -> IngestResult:
        """Return what came of all files."""
        skipped = self._log.skipped.copy()
        skipped["a conversation that is forgotten"] = self._outcomes["forgotten"]
        skipped["an older version of a conversation"] = self._outcomes["older"]
        return IngestResult(
            new=self._outcomes["new"],
            changed=self._outcomes["changed"],
            unchanged=self._outcomes["unchanged"],
            skipped=tuple(Skipped(reason=r, count=n) for r, n in skipped.most_common() if n),
            broken_lines=self._log.broken,
            cut=self._log.cut,
        )

    def _leave(self, known: _State) -> None:
        """Count what a file holds that is as it was."""
        self._outcomes["unchanged"] += known.conversations
        self._log.skipped.update(known.skipped)
        self._log.broken += known.broken
        self._log.cut += known.cut

    def _read(self, file: SourceFile, name: str, state: _State, log: ReadLog) -> _State:
        """Read a file into the store, and return what to remember of it."""
        count = 0
        for raw in file.read(log):
            conversation = self._finished(raw, log)
            if conversation is None:
                continue
            count += 1
            self._waiting.append(conversation)
            self._characters += sum(len(turn.text) for turn in conversation.turns)
            if raw.unique_turns or self._is_much():
                self._store_waiting(name)
        self._store_waiting(name)
        self._log.add(log)
        return replace(
            state, conversations=count, skipped=dict(log.skipped), broken=log.broken, cut=log.cut
        )

    def _finished(self, raw: RawConversation, log: ReadLog) -> SourceConversation | None:
        self._log.check()
        redact = self._redactor.redact
        conversation = finish(raw, strip=strip_marked, redact=redact, log=log)
        if conversation is None:
            return None
        gone = self._store.forgotten_turns(conversation)
        left = _without(conversation, gone)
        if left is None:
            self._outcomes["forgotten"] += 1
        elif raw.unique_turns:
            left = _without(left, self._store.copied_turns(left))
            if left is None:
                log.skip("a session that only copies another one")
        return left

    def _is_much(self) -> bool:
        return len(self._waiting) >= _BATCH or self._characters >= _BATCH_CHARACTERS

    def _store_waiting(self, name: str) -> None:
        if self._waiting:
            self._outcomes.update(self._store.add_all(self._waiting, origin=name))
            self._waiting.clear()
            self._characters = 0


def _without(conversation: SourceConversation, ids: frozenset[str]) -> SourceConversation | None:
    """Return a conversation without some turns; None: no other is left."""
    if not ids:
        return conversation
    turns = tuple(turn for turn in conversation.turns if turn.id not in ids)
    if not turns:
        return None
    return replace(conversation, turns=turns, digest=digest_of(turns))


@dataclass(frozen=True, kw_only=True)
class _State:
    """What is remembered of a file."""

    version: str
    size: int
    mtime: int
    digest: str = ""
    conversations: int = 0
    skipped: Mapping[str, int]
    broken: int = 0
    cut: int = 0

    @classmethod
    def of(cls, path: Path) -> _State:
        """Return how a file looks, without reading it."""
        status = path.stat()
        # Written to just now: it may be written to again within the same tick of the clock.
        racy = time.time_ns() - status.st_mtime_ns < _RACY_NS
        return cls(
            version=f"{VERSION}.{redacting.VERSION}",
            size=status.st_size,
            mtime=0 if racy else status.st_mtime_ns,
            skipped={},
        )

    @classmethod
    def parse(cls, text: str | None) -> _State | None:
        """Return what `written` has written; None: nothing, or by another version."""
        if text is None:
            return None
        try:
            state = cls(**json.loads(text))
        except (ValueError, TypeError):
            return None
        return state if state.version == f"{VERSION}.{redacting.VERSION}" else None

    def same_stamp(self, other: _State) -> bool:
        """Return whether a file looks as it did."""
        return self.mtime != 0 and (self.size, self.mtime) == (other.size, other.mtime)

    def written(self) -> str:
        """Return it as text."""
        return json.dumps(vars(self))


def _digest(path: Path, log: ReadLog) -> str:
    digest = hashlib.sha256()
    with open_regular(path) as (file, _):
        while piece := file.read(_PIECE):
            log.check()
            digest.update(piece)
    return digest.hexdigest()
