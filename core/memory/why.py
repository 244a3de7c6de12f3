"""Where a sentence of the vault comes from: citations, quoted turns, run and commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from core.errors import NotFound, StoreCorrupt, UsageProblem
from core.memory.article import parse, sentences
from core.memory.citation import collapsed, is_quoted, parse_citation
from core.memory.names import name_key
from core.memory.origins import Origin, origins, sentence_key
from core.memory.vault import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.memory.citation import Citation
    from core.memory.git import Git
    from core.memory.parts import Article, Sentence
    from core.memory.store import ConversationStore
    from core.memory.turns import Role
    from core.memory.vault import Page, Vault

Match = Literal["exact", "normalized", "part", "words"]
"""How a sentence was found: as it is; links, case and dates aside; as a part; by its words."""
_ORDER: tuple[Match, ...] = ("exact", "normalized", "part", "words")
MOST_ANSWERS = 20
"""Sentences that are explained at most."""
_LONGEST_QUERY = 2000


@dataclass(frozen=True, kw_only=True)
class Cited:
    """A footnote of the sentence."""

    label: str
    """Label of the footnote."""
    text: str
    """Text of the footnote."""
    citation: Citation | None
    """What it cites; None: it is a footnote of another kind, or is not defined."""
    role: Role | None = None
    """Who wrote the cited turn; None: the turn is not stored here."""
    turn: str | None = None
    """The whole cited turn; None: it is not stored here."""
    title: str | None = None
    """Title of the conversation; None: it is not stored here."""
    quoted: bool | None = None
    """Whether the turn has the quoted words; None: it is not stored here."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Where one sentence comes from."""

    article: str
    """Name of the article."""
    path: str
    """Where it lies in the vault."""
    line: int
    """1-based."""
    anchor: str
    """Anchor of the section; empty: the lead."""
    sentence: str
    """As it stands there, without footnote markers."""
    match: Match
    """How it was found."""
    cited: tuple[Cited, ...]
    """Its footnotes; none: nothing is cited."""
    origin: Origin | None
    """The commit that brought it, with its run; None: the vault has no repository."""


@dataclass(frozen=True, kw_only=True)
class Reasons:
    """Where the sentences come from that fit a text."""

    found: tuple[Reason, ...]
    """At least one, all found in the same way, sorted by article and line."""
    more: int
    """How many others fit as well."""


def why(
    text: str, *, vault: Vault, git: Git | None, store: ConversationStore | None = None
) -> Reasons:
    """Find a sentence in the articles, and where it comes from.

    Args:
        text: the sentence, or a part of it, or some words of it.
        vault: the vault.
        git: its repository; None: it has none.
        store: the conversations that were ingested; None: turns are not looked up.

    Raises:
        UsageProblem: the text has no words, or too many.
        NotFound: no sentence fits.
    """
    key = sentence_key(text)
    if not any(char.isalnum() for char in key):
        raise UsageProblem("Give a sentence of an article, or some words of one.")
    if len(text) > _LONGEST_QUERY:
        raise UsageProblem(f"Give a sentence of at most {_LONGEST_QUERY} characters.")
    best = _best(text, key, vault)
    if not best:
        raise NotFound(
            "No sentence of the memory vault has these words.",
            hint="Look for articles with: mlxbun memory search WORDS",
        )
    return Reasons(found=tuple(_explained(best[:MOST_ANSWERS], git, store)),
                   more=max(0, len(best) - MOST_ANSWERS))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    page: Page
    article: Article
    sentence: Sentence
    match: Match


def _best(text: str, key: str, vault: Vault) -> list[_Candidate]:
    """Return the sentences that fit in the strictest of the ways in which any does."""
    found: list[_Candidate] = []
    for name in vault.names().articles:
        try:
            page = vault.read(path_of(name), whole=False)  # by name, all names are read
        except (NotFound, StoreCorrupt):
            continue  # deleted meanwhile, or unreadable: `doctor` names it
        found += _candidates(text, key, page)
    best = min((_ORDER.index(each.match) for each in found), default=0)
    return [each for each in found if each.match == _ORDER[best]]


def _candidates(text: str, key: str, page: Page) -> Iterator[_Candidate]:
    words = set(key.split())
    # Whole articles first: few have all the words, and only those are parsed.
    whole = name_key(page.text)
    if not all(_bare(word) in whole for word in words):
        return
    article = parse(page.text)
    for sentence in sentences(article):
        match = _match(text, key, words, sentence.text)
        if match is not None:
            yield _Candidate(page=page, article=article, sentence=sentence, match=match)


def _match(text: str, key: str, words: set[str], sentence: str) -> Match | None:
    if collapsed(text) == sentence:
        return "exact"
    other = sentence_key(sentence)
    if _bare(key) == _bare(other):
        return "normalized"
    if _bare(key) in other:
        return "part"
    there = {_bare(word) for word in other.split()}
    return "words" if {_bare(word) for word in words} - {""} <= there else None


def _bare(text: str) -> str:
    """Return a text without the stop behind it, and quotes around it."""
    return text.strip(" .,;:!?。！？\"'()[]“”„«»")


def _explained(
    candidates: Sequence[_Candidate], git: Git | None, store: ConversationStore | None
) -> Iterator[Reason]:
    by_path: dict[str, list[_Candidate]] = {}
    for each in candidates:
        by_path.setdefault(each.page.path, []).append(each)
    for path, group in by_path.items():
        texts = [each.sentence.text for each in group]
        known = origins(git, path, texts) if git else [None] * len(texts)
        for each, origin in zip(group, known, strict=True):
            yield Reason(
                article=each.page.name,
                path=path,
                line=each.sentence.line,
                anchor=each.sentence.anchor,
                sentence=each.sentence.text,
                match=each.match,
                cited=tuple(_cited(each, store)),
                origin=origin,
            )


def _cited(candidate: _Candidate, store: ConversationStore | None) -> Iterator[Cited]:
    notes = {note.label: note.text for note in candidate.article.footnotes}
    for label in dict.fromkeys(candidate.sentence.labels):
        text = notes.get(label, "")
        citation = parse_citation(text)
        stored = store.get(citation.source) if store and citation else None
        turn = stored.turn(citation.message) if stored and citation else None
        yield Cited(
            label=label,
            text=text,
            citation=citation,
            role=turn.role if turn else None,
            turn=turn.text if turn else None,
            title=stored.title if stored else None,
            quoted=is_quoted(citation.quote, turn.text) if turn and citation else None,
        )
