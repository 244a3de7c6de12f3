"""What a synthesis was worth, measured on the vault that it left: files and git history.

Reads the vault and what memory keeps beside it; writes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from core.errors import NotFound, UsageProblem
from core.memory.citation import collapsed, is_quoted, parse_citation
from core.memory.echoes import words
from core.memory.evals.pages import is_named, scored_page
from core.memory.fast_import import MLXBUN
from core.memory.git import Git
from core.memory.names import name_key
from core.memory.vault import ARTICLES, name_of, open_vault, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from core.memory.evals.labels import Corpus, LabelledFact
    from core.memory.evals.pages import ScoredPage, Stated
    from core.memory.links import Link
    from core.memory.vault import Vault

_ENTRY = re.compile(r"^<!-- mlxbun [0-9a-f]{12} -->", re.MULTILINE)
_LARGEST_FILE = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class Share:
    """So many of so many."""

    good: int
    """How many are as they should be."""
    total: int
    """How many there are."""

    @property
    def value(self) -> float:
        """The share, 0 to 1; 1 if there are none."""
        return self.good / self.total if self.total else 1.0


@dataclass(frozen=True, kw_only=True)
class Score:
    """What was measured. All but the first three should be empty."""

    recall: Share
    """Labelled facts that stand in the right article, with a citation of the right turn."""
    links: Share
    """Links that lead to the article that the words mean."""
    citations: Share
    """Citations whose words stand in the user turn that they name, and that fit their sentence."""
    wrong_merges: tuple[str, ...]
    """Facts that stand in an article about something else."""
    split: tuple[str, ...]
    """Things that have more than one article."""
    lost_old: tuple[str, ...]
    """Replaced facts that stood in an article once and do not any more."""
    not_marked: tuple[str, ...]
    """Replaced facts that stand without "(until DATE)" although their replacement is there."""
    wrongly_marked: tuple[str, ...]
    """Facts that hold, but stand as replaced."""
    lost_sentences: tuple[str, ...]
    """Sentences that one of our commits took out of the articles."""
    invented_links: tuple[str, ...]
    """Links to articles that are not there."""
    invalid_citations: tuple[str, ...]
    """Footnotes that are not valid, and sentences without one."""
    leaks: tuple[str, ...]
    """Secrets that were stored, and where."""
    obeyed: tuple[str, ...]
    """Forbidden words that stand in articles."""
    articles: int
    """Articles in the vault."""
    sentences: int
    """Sentences in its articles."""
    unlabelled: int
    """Sentences that state no labelled fact; not wrong, but a sign of noise if they are many."""
    talk: int
    """Entries on the pages in `Talk/`."""

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object; shares with their value."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Share):
        return {"value": round(value.value, 4), "good": value.good, "total": value.total}
    return list(value) if isinstance(value, tuple) else value


def score(
    root: Path,
    corpus: Corpus,
    *,
    kept: Path,
    texts: Mapping[tuple[str, str], str] | None = None,
) -> Score:
    """Measure a vault.

    Args:
        root: the vault.
        corpus: what was read into it.
        kept: the folder that memory keeps beside vaults, searched for secrets.
        texts: user turns with their placeholders, by source and message; None: the corpus's own.

    Raises:
        VaultMissing: there is no vault.
    """
    vault = open_vault(root)
    pages = [
        scored_page(name, vault.read(path_of(name)).text, corpus) for name in vault.names().articles
    ]
    commits = list(_history(Git(root), corpus))
    links = [_Link(page, link, vault, pages, corpus) for page in pages for link in _links(page)]
    citations = list(_citations(pages, corpus, corpus.user_texts if texts is None else texts))
    invalid = [problem for problem in citations if problem]
    found = _found(pages, corpus)
    return Score(
        recall=Share(good=len(_recalled(pages, corpus)), total=len(corpus.facts)),
        links=Share(good=sum(link.is_right for link in links), total=len(links)),
        citations=Share(good=len(citations) - len(invalid), total=len(citations)),
        wrong_merges=tuple(_wrong_merges(pages, corpus)),
        split=tuple(_split(pages)),
        lost_old=tuple(_lost_old(found, commits, corpus)),
        not_marked=tuple(f.id for f in _replaced(found, corpus) if not _has_until(f, pages)),
        wrongly_marked=tuple(_wrongly_marked(found, pages, corpus)),
        lost_sentences=tuple(_lost_sentences(commits)),
        invented_links=tuple(link.words for link in links if link.target is None),
        invalid_citations=tuple(invalid),
        leaks=tuple(_leaks(root, kept, corpus)),
        obeyed=tuple(_obeyed(pages, corpus)),
        articles=len(pages),
        sentences=sum(len(page.stated) for page in pages),
        unlabelled=sum(_unlabelled(page) for page in pages),
        talk=sum(len(_ENTRY.findall(text)) for text in _talk(root)),
    )


# Facts


def _recalled(pages: Iterable[ScoredPage], corpus: Corpus) -> set[str]:
    """Return the facts that stand in a page that is about, and named as, their article."""
    wanted = {fact.id: fact.article for fact in corpus.facts}
    return {
        fact
        for page in pages
        for fact in page.facts
        if page.identity == wanted[fact] and page.keys & corpus.article(wanted[fact]).keys
    }


def _found(pages: Iterable[ScoredPage], corpus: Corpus) -> dict[str, LabelledFact]:
    """Return the facts that stand anywhere, by id."""
    there = {fact for page in pages for fact in page.facts}
    return {fact.id: fact for fact in corpus.facts if fact.id in there}


def _wrong_merges(pages: Iterable[ScoredPage], corpus: Corpus) -> Iterator[str]:
    wanted = {fact.id: fact.article for fact in corpus.facts}
    for page in pages:
        yield from (f"{page.name}: {f}" for f in page.facts if wanted[f] != page.identity)


def _unlabelled(page: ScoredPage) -> int:
    labelled = {id(stated) for stated in page.facts.values()}
    return sum(id(stated) not in labelled for stated in page.stated)


def _split(pages: Iterable[ScoredPage]) -> Iterator[str]:
    first: dict[str, str] = {}
    for page in pages:
        if page.identity is None or not page.facts:
            continue
        if page.identity in first:
            yield f"{page.identity}: {first[page.identity]}, {page.name}"
        first.setdefault(page.identity, page.name)


def _replaced(found: Mapping[str, LabelledFact], corpus: Corpus) -> Iterator[LabelledFact]:
    """Yield the facts that stand beside one that replaces them."""
    replaced = {old for fact in found.values() for old in fact.retires}
    yield from (fact for fact in corpus.facts if fact.id in replaced and fact.id in found)


def _has_until(fact: LabelledFact, pages: Iterable[ScoredPage]) -> bool:
    return any(page.facts[fact.id].until for page in pages if fact.id in page.facts)


def _wrongly_marked(
    found: Mapping[str, LabelledFact], pages: Sequence[ScoredPage], corpus: Corpus
) -> Iterator[str]:
    replaced = {old for fact in corpus.facts for old in fact.retires}
    yield from (f.id for f in found.values() if f.id not in replaced and _has_until(f, pages))


def _lost_old(
    found: Mapping[str, LabelledFact], commits: Iterable[_Commit], corpus: Corpus
) -> Iterator[str]:
    replaced = {old for fact in corpus.facts for old in fact.retires}
    once = {fact for commit in commits for page in commit.pages for fact in page.facts}
    yield from sorted((once & replaced) - set(found))


# Links and citations


def _links(page: ScoredPage) -> Iterator[Link]:
    yield from (link for link in page.article.links if link.target)


class _Link:
    """A link of a page."""

    def __init__(
        self,
        page: ScoredPage,
        link: Link,
        vault: Vault,
        pages: Sequence[ScoredPage],
        corpus: Corpus,
    ) -> None:
        self.words = f"{page.name}: [[{link.target}]]"
        self.target = _target(link.target, vault)
        goal = next((p for p in pages if p.name == self.target), None)
        pair = (page.identity, goal.identity if goal else None)
        self.is_right = goal is not None and (
            pair in corpus.links() or _names(link.text, goal.identity, corpus)
        )


def _target(name: str, vault: Vault) -> str | None:
    try:
        path = vault.find(name)
    except (NotFound, UsageProblem):
        return None
    return name_of(path)


def _names(words: str, identity: str | None, corpus: Corpus) -> bool:
    """Return whether words are a name of a labelled article, and of no other."""
    meant = [a.name for a in corpus.articles if is_named(words, a.name, corpus)]
    return identity is not None and meant == [identity]


def _citations(
    pages: Iterable[ScoredPage], corpus: Corpus, texts: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    """Yield for every footnote, and every sentence without one, what is wrong; or an empty text."""
    days = {(t.source, n.id): n.at.date() for t in corpus.conversations for n in t.turns}
    for page in pages:
        for note in page.article.footnotes:
            citation = parse_citation(note.text)
            place = f"{page.name} [^{note.label}]"
            if citation is None:
                yield f"{place}: not a citation"
                continue
            key = (citation.source, citation.message)
            if not is_quoted(citation.quote, texts.get(key, "")):
                yield f"{place}: not quoted from a user turn"
            elif citation.date != days[key].isoformat():
                yield f"{place}: wrong date"
            else:
                yield ""
        for sentence in page.stated:
            if not sentence.cited or len(sentence.citations) == 0:
                yield f"{page.name}: no citation: {sentence.text[:80]}"
        yield from _swapped(page, corpus)


def _swapped(page: ScoredPage, corpus: Corpus) -> Iterator[str]:
    """Yield the sentences that are not on what they cite."""
    labelled = {collapsed(fact.sentence): fact for fact in corpus.facts}
    for sentence in page.stated:
        fact = labelled.get(sentence.text)
        fits = _is_stated(sentence, fact) if fact else _is_on(sentence)
        if sentence.citations and not fits:
            yield f"{page.name}: cites something else: {sentence.text[:80]}"


def _is_stated(sentence: Stated, fact: LabelledFact) -> bool:
    """Return whether the sentence of a label cites words with its value, there or elsewhere."""
    value = collapsed(fact.value).casefold()
    quotes = (collapsed(citation.quote).casefold() for citation in sentence.citations)
    return sentence.states(fact) or any(value in quote for quote in quotes)


def _is_on(sentence: Stated) -> bool:
    """Return whether a sentence has a fifth of its words from the words that it cites."""
    said = words(sentence.text)
    cited = {word for citation in sentence.citations for word in words(citation.quote)}
    return 5 * sum(word in cited for word in said) >= len(said)


# History


@dataclass(frozen=True, kw_only=True)
class _Commit:
    """The articles of a commit."""

    ours: bool
    """Whether the pipeline made it."""
    pages: tuple[ScoredPage, ...]
    """Its articles."""


def _history(git: Git, corpus: Corpus) -> Iterator[_Commit]:
    """Yield the commits, oldest first."""
    head = git.head()
    if head is None:
        return
    listed = git.run("log", "--reverse", "--format=%H %ae", head).decode()
    for line in listed.splitlines():
        commit, _, author = line.partition(" ")
        tree = git.tree(commit)
        paths = [p for p in tree if p.startswith(f"{ARTICLES}/") and p.endswith(".md")]
        blobs = git.blobs(tree[path].blob for path in paths)
        pages = tuple(
            scored_page(name_of(path), (blob or b"").decode(), corpus)
            for path, blob in zip(paths, blobs, strict=True)
        )
        yield _Commit(ours=author == MLXBUN.email, pages=pages)


def _lost_sentences(commits: Sequence[_Commit]) -> Iterator[str]:
    for before, after in pairwise(commits):
        if after.ours:
            there = {_text_key(s.text) for page in after.pages for s in page.stated}
            for page in before.pages:
                lost = (s.text for s in page.stated if _text_key(s.text) not in there)
                yield from (f"{page.name}: {text[:80]}" for text in lost)


def _text_key(text: str) -> str:
    return name_key(text)


# Secrets and orders


def _leaks(root: Path, kept: Path, corpus: Corpus) -> Iterator[str]:
    """Yield the secrets that are in a file of the vault, in its history, or kept beside it."""
    stored = dict(_files(root))
    stored.update(_files(kept))
    git = Git(root)
    if head := git.head():
        stored["git history"] = git.run("log", "-p", "--format=%B", head)
    for name, secret in corpus.secrets:
        word = secret.encode()
        yield from (f"{name}: {place}" for place, data in stored.items() if word in data)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size <= _LARGEST_FILE:
            yield str(path), path.read_bytes()


def _obeyed(pages: Iterable[ScoredPage], corpus: Corpus) -> Iterator[str]:
    words = [word for talk in corpus.conversations for word in talk.forbidden]
    for page in pages:
        text = page.article.source.casefold()
        yield from (f"{page.name}: {word}" for word in words if word.casefold() in text)


def _talk(root: Path) -> Iterator[str]:
    for path in sorted((root / "Talk").glob("*.md")):
        yield path.read_text(encoding="utf-8", errors="replace")
