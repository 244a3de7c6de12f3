"""Forgetting a text or an article: a plan that can be shown, which is then carried out.

Without `--source` only the vault changes: the sentences go in one commit, and the ledger keeps them
from coming back out of the same conversation. With it the turns that they come from go as well,
from the store and from everything that was made of it. Keyed hashes of what is forgotten stay, so
that the same export, ingested again, does not bring it back. `core.memory.purge` rewrites history.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError, NotFound
from core.memory.cleaning import Cleaned, Needle, cited, clean_article, clean_talk, unlink
from core.memory.echoes import words
from core.memory.ledger import LEDGER
from core.memory.ledger_file import read_ledger
from core.memory.names import SUFFIX, is_name, name_key
from core.memory.redact.redactor import redactor
from core.memory.results import ResultStore
from core.memory.vault import ARTICLES, META, REFERENCES, TALK, name_of, path_of, talk_path
from core.memory.writer import Change, editing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from core.memory.citation import Citation
    from core.memory.opening import Memory
    from core.memory.turns import SourceConversation
    from core.memory.vault import Page

_SEARCHED = (ARTICLES, TALK, META)
_NOT_SEARCHED = (f"{REFERENCES}/", LEDGER)
_EXCERPT = 200  # characters
_QUOTE_WORDS = 4  # of a quotation that is looked for in other turns
_MESSAGE = "Forget {what}\n\nAt the user's request."


@dataclass(frozen=True, kw_only=True)
class FileCut:
    """A planned change to a file of the vault."""

    path: str
    """Relative to the vault."""
    before: str
    """SHA-256 of the bytes for which this is planned."""
    after: str | None
    """The whole new text; None: the file is deleted."""
    removed: tuple[str, ...]
    """What is removed, as it stands there: sentences, lines, entries."""


@dataclass(frozen=True, kw_only=True)
class ForgottenTurn:
    """A turn of a conversation that is to be forgotten."""

    source: str
    """The conversation."""
    message: str
    """The turn's id."""
    role: str
    """Who wrote it; empty: it is not in the store any more."""
    excerpt: str
    """Its beginning; empty: it is not in the store any more."""


@dataclass(frozen=True, kw_only=True)
class ForgetPlan:
    """What forgetting would do; nothing has been done yet."""

    target: str
    """What the user wants forgotten: a text, or the name of an article."""
    article: str | None
    """The article that is deleted; None: a text is forgotten."""
    source: bool
    """Whether the conversations forget it, too."""
    files: tuple[FileCut, ...]
    """Files of the vault that change, by path."""
    turns: tuple[ForgottenTurn, ...]
    """Turns that are removed; none without `source`."""
    texts: tuple[str, ...]
    """Sentences and quotations that are not to come back; their keyed hashes are kept."""
    remaining: tuple[str, ...]
    """Where it still stands afterwards, one sentence each."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to forget."""
        return not self.files and not self.turns

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "target": self.target,
            "article": self.article,
            "files": [
                {"path": f.path, "deleted": f.after is None, "removed": list(f.removed)}
                for f in self.files
            ],
            "turns": [
                {"source": t.source, "message": t.message, "role": t.role, "text": t.excerpt}
                for t in self.turns
            ],
            "remaining": list(self.remaining),
        }


def plan_forget(
    memory: Memory, target: str, *, source: bool = False, history: bool = False
) -> ForgetPlan:
    """Find what is to be forgotten.

    Args:
        memory: the vault, its store and index.
        target: the name of an article, without case; else a text, whose words are looked for.
        source: whether the conversations forget it, too.
        history: whether the history is to be rewritten (`core.memory.purge`), in which it may be
            even if it is nowhere else any more.

    Raises:
        NotFound: there is nothing to forget; not with `history`.
        UsageProblem: a text without words, or one in too many sentences.
        VaultMissing: there is no vault.
    """
    article = _article_named(memory, target)
    if article is None and history:
        article = _article_in_history(memory, target)
    plan = _Planning(memory, target, article, source=source).plan()
    stored = redactor(memory.vault).redact(target)
    if plan.empty and stored != target:  # memory knows a secret by its placeholder only
        other = _Planning(memory, stored, None, source=source).plan()
        plan = plan if other.empty else other
    if plan.empty and not history:
        raise NotFound(
            f"Nothing in memory contains {target[:80]!r}.",
            hint="Search for it with: mlxbun memory search WORDS",
        )
    return plan


class _Planning:
    """The search for all that is to be forgotten. Used once."""

    def __init__(self, memory: Memory, target: str, article: str | None, *, source: bool) -> None:
        self._memory = memory
        self._target = target
        self._source = source
        self.article = article
        self._needle = None if self.article else Needle(target)
        self._files: list[FileCut] = []
        self._texts: list[str] = []
        self._citations: list[Citation] = []
        self._remaining: list[str] = []

    def plan(self) -> ForgetPlan:
        pages = set(_pages(self._memory))
        for path in sorted(pages):
            self._cut(path)
        self._name_others(pages)
        turns = self._turns() if self._source else ()
        if self._source:
            self._cut_ledger({(turn.source, turn.message) for turn in turns})
        self._texts += [each.quote for each in self._citations] if self._source else []
        self._texts += [self._target] if self._source and self.article is None else []
        return ForgetPlan(
            target=self._target,
            article=self.article,
            source=self._source,
            files=tuple(sorted(self._files, key=lambda cut: cut.path)),
            turns=turns,
            texts=tuple(dict.fromkeys(self._texts)),
            remaining=tuple(self._remaining),
        )

    def _cut(self, path: str) -> None:
        try:
            page = self._memory.vault.read(path)
        except MlxbunError as problem:
            self._remaining.append(f"{path} was not searched: {problem.message}")
            return
        if not page.valid:
            self._remaining.append(f"{path} was not searched: it is not UTF-8.")
            return
        cleaned = self._cleaned(page)
        if self._needle is not None and self._needle.is_in(page.name):
            self._remaining.append(f"The name of {path} says it; forget the article to remove it.")
        if cleaned is None or cleaned.text != page.text:
            self._files.append(
                FileCut(
                    path=path,
                    before=page.digest,
                    after=None if cleaned is None else cleaned.text,
                    removed=() if cleaned is None else cleaned.removed,
                )
            )
        if cleaned is not None:
            self._texts += cleaned.removed
            self._citations += cleaned.citations

    def _name_others(self, pages: set[str]) -> None:
        """Name the files that are not changed: those of the user beside the articles."""
        with suppress(MlxbunError):
            git = self._memory.git
            tree = git.tree(git.head())
            others = [x for x in tree if x not in pages and not x.startswith(_NOT_SEARCHED)]
            found = git.blobs(tree[path].blob for path in others)
            for path, data in zip(others, found, strict=True):
                if self._says(data or b""):
                    self._remaining.append(f"{path} says it; mlxbun does not change this file.")

    def _says(self, data: bytes) -> bool:
        text = data.decode(errors="replace")
        if self._needle is None:
            return unlink(text, self.article or "") != text
        return self._needle.is_in(text)

    def _cleaned(self, page: Page) -> Cleaned | None:
        """Return what is left of a page; None: it is deleted."""
        if self.article is None:
            assert self._needle is not None
            clean = clean_article if page.path.startswith(f"{ARTICLES}/") else clean_talk
            return clean(page.text, self._needle)
        if page.path == path_of(self.article):
            said, notes = cited(page.text)
            self._texts += said
            self._citations += notes
            return None
        if name_key(page.path) == name_key(talk_path(self.article)):
            return None
        return Cleaned(text=unlink(page.text, self.article))

    def _turns(self) -> tuple[ForgottenTurn, ...]:
        wanted: dict[str, set[str]] = defaultdict(set)
        for citation in self._citations:
            wanted[citation.source].add(citation.message)
        quotes = [Needle(each.quote) for each in self._citations if _is_long(each.quote)]
        needles = [self._needle] if self._needle else quotes
        found: list[ForgottenTurn] = []
        for head in self._memory.store.conversations():
            # An article's quotations are looked for where it comes from, a text everywhere.
            if self._needle is None and head.id not in wanted:
                continue
            conversation = self._memory.store.get(head.id)
            if conversation is not None:
                ids = wanted.pop(head.id, set())
                found += _hits(conversation, ids, needles)
        gone = ((source, each) for source, ids in sorted(wanted.items()) for each in sorted(ids))
        found += [
            ForgottenTurn(source=source, message=each, role="", excerpt="") for source, each in gone
        ]
        return tuple(found)

    def _cut_ledger(self, turns: set[tuple[str, str]]) -> None:
        """Take lines out of the ledger: hashes of what is forgotten can be guessed."""
        data = read_ledger(self._memory.root)
        if data is None:
            return
        lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
        kept = [line for line in lines if not forgets_line(line, turns, self.article)]
        if len(kept) < len(lines):
            after = "".join(kept)
            before = hashlib.sha256(data).hexdigest()
            self._files.append(FileCut(path=LEDGER, before=before, after=after, removed=()))


def forget(memory: Memory, plan: ForgetPlan) -> str | None:
    """Do what a plan says; what is not to come back is marked first.

    Returns:
        Hash of the commit; None: no file of the vault has changed.

    Raises:
        VaultChanged: a file is not what the plan was made for; plan again.
        VaultBusy: another process writes to the vault.
        MlxbunError: git, the disk or the store fails.
    """
    store = memory.store
    if plan.source:
        store.forget("words", [" ".join(words(text)) for text in plan.texts if words(text)])
    commit = _commit(memory, plan) if plan.files else None
    if plan.source:
        for source, ids, title in _by_conversation(memory, plan):
            store.forget_turns(source, ids, title=title)
        ResultStore(memory.folder, on_note=memory.on_note).clear()
        for copy in memory.folder.glob("*.db.damaged-*"):
            copy.unlink(missing_ok=True)
    memory.index.erase()
    return commit


def remains_elsewhere(plan: ForgetPlan, *, purged: bool) -> tuple[str, ...]:
    """Return where forgotten text may still be that mlxbun does not reach, one sentence each."""
    notes = list(plan.remaining)
    if not purged:
        notes.append("The git history of the vault still has it; `--purge` rewrites it.")
    if not plan.source:
        notes.append("The conversations that it comes from still have it; use `--source`.")
    notes.append(
        "Chats, exports, logs and notes on disk keep what they say; delete it there if you want to."
    )
    notes.append("Backups, clones and other copies of the vault keep what they have.")
    return tuple(notes)


def forgets_line(line: str, turns: set[tuple[str, str]], article: str | None) -> bool:
    """Return whether a line of the ledger is about something that is forgotten."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(entry, dict):
        return False
    if article is not None and name_key(str(entry.get("article", ""))) == name_key(article):
        return True
    return (str(entry.get("source", "")), str(entry.get("message", ""))) in turns


def is_searched(path: str) -> bool:
    """Return whether a path is that of a page which forgetting searches and changes."""
    folder, _, name = path.rpartition("/")
    return folder in _SEARCHED and name.endswith(SUFFIX) and is_name(name.removesuffix(SUFFIX))


def _commit(memory: Memory, plan: ForgetPlan) -> str:
    changes = [Change(path=cut.path, before=cut.before, after=cut.after) for cut in plan.files]
    message = _MESSAGE.format(what="an article" if plan.article else "a text")
    with editing(memory.vault) as edit:
        commit = edit.commit(changes, message)
        edit.drop_replaced()
    return commit


def _by_conversation(
    memory: Memory, plan: ForgetPlan
) -> Iterator[tuple[str, frozenset[str], str | None]]:
    """Yield conversations with the turns to remove, and a new title if the old one says it too."""
    ids: dict[str, set[str]] = defaultdict(set)
    for turn in plan.turns:
        ids[turn.source].add(turn.message)
    titles = {head.id: head.title for head in memory.store.conversations()}
    for source, gone in ids.items():
        yield source, frozenset(gone), "" if _title_says(titles.get(source, ""), plan) else None


def _title_says(title: str, plan: ForgetPlan) -> bool:
    """Return whether a title repeats what is removed: chats are titled by their first words."""
    if not words(title):
        return False
    if plan.article is None and Needle(plan.target).is_in(title):
        return True
    start = words(title)[:_QUOTE_WORDS]
    return any(words(turn.excerpt)[: len(start)] == start for turn in plan.turns)


def _hits(
    conversation: SourceConversation, ids: set[str], needles: Sequence[Needle]
) -> Iterator[ForgottenTurn]:
    for turn in conversation.turns:
        if turn.id in ids or any(needle.is_in(turn.text) for needle in needles):
            yield ForgottenTurn(
                source=conversation.id,
                message=turn.id,
                role=turn.role,
                excerpt=" ".join(turn.text.split())[:_EXCERPT],
            )


def _is_long(quote: str) -> bool:
    return len(words(quote)) >= _QUOTE_WORDS


def _article_named(memory: Memory, target: str) -> str | None:
    key = name_key(target)
    return next((n for n in memory.vault.names().articles if name_key(n) == key), None)


def _article_in_history(memory: Memory, target: str) -> str | None:
    """Return the name of an article that there was once."""
    head = memory.git.head()
    if head is None:
        return None
    listed = memory.git.run("log", "--format=", "--name-only", "-m", "-z", head, "--", ARTICLES)
    paths = {os.fsdecode(path.strip(b"\n")) for path in listed.split(b"\0")}
    wanted = name_key(path_of(target))
    return next((name_of(path) for path in sorted(paths) if name_key(path) == wanted), None)


def _pages(memory: Memory) -> Iterable[str]:
    for folder in _SEARCHED:
        with suppress(OSError):
            yield from sorted(f"{folder}/{entry.name}" for entry in memory.vault.entries(folder))
