"""`memory doctor`: checks a vault and changes nothing.

What a claim is: a sentence that a run of mlxbun wrote. The history says so (`core.memory.origins`):
the oldest version of the article that has the sentence, without a gap since, was committed by a
run. Sentences that the user wrote or imported are not claims, wherever they stand. A claim without
a footnote is a finding: someone has removed the footnote.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from core.errors import MlxbunError, NotFound, StoreCorrupt, UsageProblem
from core.memory import lines, links
from core.memory.anchors import slug
from core.memory.article import parse, sentences
from core.memory.citation import Citation, is_quoted, parse_citation
from core.memory.disk_checks import check_attributes, check_repository, look_over
from core.memory.fast_import import MLXBUN
from core.memory.finding import Finding, arranged, is_sound
from core.memory.graph import Resolver
from core.memory.history import RUN
from core.memory.names import name_key
from core.memory.origins import origins
from core.memory.page_checks import check_article, check_conflict
from core.memory.plain import shortened
from core.memory.vault import META, TALK, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Protocol

    from core.memory.article import Article, Sentence
    from core.memory.disk_checks import Files
    from core.memory.git import Git
    from core.memory.links import FileLink, Link
    from core.memory.turns import SourceConversation
    from core.memory.vault import Page, Vault

    class HasConversations(Protocol):
        """Where quoted conversations are found."""

        def get(self, source_id: str) -> SourceConversation | None:
            """Return a conversation; None: it is not known."""
            ...

        def conversations(self) -> Sequence[object]:
            """Return all of them."""
            ...

        def is_forgotten(self, source_id: str, message: str) -> bool:
            """Return whether the user has had a message forgotten."""
            ...


__all__ = ["Finding", "examine", "is_sound"]
_FILE_ADDRESS = re.compile(r"\]\(<?(file:[^\s()<>]{1,1000})", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What is kept of an article after it was read."""

    path: str
    title: str
    aliases: tuple[str, ...]
    anchors: frozenset[str]
    links: tuple[Link, ...]
    file_links: tuple[tuple[FileLink, int], ...]
    """With their lines."""
    citations: tuple[tuple[Citation, int], ...]
    """With their lines."""


def examine(
    vault: Vault, *, git: Git, store: HasConversations | None = None
) -> tuple[Finding, ...]:
    """Check a vault.

    Args:
        vault: the vault.
        git: its repository.
        store: the conversations that were ingested for it; None: quotes are not checked.

    Returns:
        What was found, by file and line.

    Raises:
        VaultMissing: there is no vault.
    """
    names = vault.names()
    files = look_over(vault)
    found = [*files.findings, *check_attributes(vault, files)]
    found += check_repository(git, is_git=vault.is_git)
    for path in sorted(files.paths):
        if path.startswith((f"{META}/", f"{TALK}/")) and path.endswith(".md"):
            found += _other_page(vault, path)
    articles: dict[str, _Read] = {}
    touched = _touched(git) if vault.is_git else frozenset()
    for name in names.articles:
        read, findings = _article(vault, git, name, touched)
        found += findings
        if read is not None:
            articles[name] = read
    resolver = Resolver(vault, names)
    found += _names(articles, names.articles)
    for read in articles.values():
        found += _links(read, articles, resolver, files)
    found += _quotes(articles, store)
    return arranged(found)


def _other_page(vault: Vault, path: str) -> Iterator[Finding]:
    page, problem = _page(vault, path)
    if problem:
        yield problem
    if page:
        yield from check_conflict(path, page.text)


def _article(
    vault: Vault, git: Git, name: str, touched: frozenset[str] | None
) -> tuple[_Read | None, list[Finding]]:
    """Read an article and check what can be checked without the others."""
    path = path_of(name)
    page, problem = _page(vault, path)
    if page is None:
        return None, [problem] if problem else []
    article = parse(page.text)
    found = [problem] if problem else []
    found += check_conflict(path, page.text)
    found += check_article(path, article)
    notes = [(parse_citation(note.text), note.line) for note in article.footnotes]
    if touched is None or path in touched:
        found += _claims(git, path, article)
    read = _Read(
        path=path,
        title=article.title,
        aliases=article.aliases,
        anchors=frozenset(section.anchor for section in article.sections),
        links=article.links,
        file_links=tuple(_file_links(page.text)),
        citations=tuple((citation, line) for citation, line in notes if citation),
    )
    found += _file_addresses(path, page.text)
    return read, found


def _page(vault: Vault, path: str) -> tuple[Page | None, Finding | None]:
    """Read a page; say why it cannot be read, or what is wrong with its bytes."""
    try:
        page = vault.read(path)
    except UsageProblem as problem:
        return None, Finding(kind="oversize", severity="error", path=path, message=problem.message)
    except (NotFound, StoreCorrupt) as problem:
        return None, Finding(
            kind="unreadable", severity="error", path=path, message=problem.message
        )
    if page.valid:
        return page, None
    message = "The page is not valid UTF-8, so mlxbun does not change it."
    return page, Finding(kind="not-utf8", severity="error", path=path, message=message)


def _touched(git: Git) -> frozenset[str] | None:
    """Return the paths of files that runs have ever written, and the paths after renames.

    None: it is not known.
    """
    try:
        head = git.head()
        if head is None:
            return frozenset()
        author = f"--author=<{MLXBUN.email}>"
        args = (author, f"--grep=^{RUN}: ", "--format=", "--name-only", "-z", head)
        written = _paths(git.run("log", *args))
        renamed = ("-M", "--diff-filter=R", "--format=", "--name-status", "-z", "--reverse", head)
        parts = _paths(git.run("log", *renamed)) if written else []
    except MlxbunError:
        return None
    touched = set(written)
    for old, new in zip(parts[1::3], parts[2::3], strict=False):
        if old in touched:
            touched.add(new)
    return frozenset(touched)


def _paths(printed: bytes) -> list[str]:
    return [os.fsdecode(part.strip(b"\n")) for part in printed.split(b"\0") if part.strip(b"\n")]


def _claims(git: Git, path: str, article: Article) -> Iterator[Finding]:
    """Find sentences that a run wrote and that cite nothing."""
    bare = [sentence for sentence in sentences(article) if not sentence.labels]
    if not bare or not git.is_top_level():
        return
    try:
        written = origins(git, path, [sentence.text for sentence in bare])
    except MlxbunError as problem:
        message = f"Claims could not be checked: {problem.message}"
        yield Finding(kind="git", severity="error", path=path, message=message)
        return
    for sentence, origin in zip(bare, written, strict=True):
        commit = origin.commit
        if commit is not None and commit.ours and commit.run and origin.certain:
            yield _claim(path, sentence)


def _claim(path: str, sentence: Sentence) -> Finding:
    return Finding(
        kind="uncited-claim",
        severity="error",
        path=path,
        line=sentence.line,
        message=f"The sentence has lost its footnote: {shortened(sentence.text, 100)}",
    )


def _names(articles: dict[str, _Read], names: Sequence[str]) -> Iterator[Finding]:
    """Find names, and aliases, that mean several articles."""
    by_key: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        by_key[name_key(name)].append(name)
    for twins in by_key.values():
        for name in twins[1:]:
            yield Finding(
                kind="duplicate-name",
                severity="error",
                path=path_of(name),
                message=f"{name!r} and {twins[0]!r} are the same name; merge the articles.",
            )
    owners: dict[str, str] = {}
    for name, read in articles.items():
        for alias in dict.fromkeys(map(name_key, (read.title, *read.aliases))):
            other = next(iter(by_key.get(alias, ())), None) or owners.setdefault(alias, name)
            if alias and other != name and name_key(other) != name_key(name):
                yield Finding(
                    kind="ambiguous-alias",
                    severity="warning",
                    path=read.path,
                    message=f"Its title or alias {alias!r} leads to {other!r} instead.",
                )


def _links(
    read: _Read, articles: dict[str, _Read], resolver: Resolver, files: Files
) -> Iterator[Finding]:
    for link in read.links:
        finding = _wikilink(link, read, articles, resolver, files)
        if finding is not None:
            yield finding
    for file_link, line in read.file_links:
        path = unquote(file_link.path)
        place = posixpath.normpath(posixpath.join(posixpath.dirname(read.path), path))
        if path.startswith(("/", "\\", "~")) or place == ".." or place.startswith("../"):
            yield _outside(read.path, line, path)
        elif path and place not in files.paths:
            message = f"There is no file {shortened(path, 100)}."
            yield _broken(read.path, line, message)


def _wikilink(
    link: Link, read: _Read, articles: dict[str, _Read], resolver: Resolver, files: Files
) -> Finding | None:
    """Return what is wrong with a link; None: nothing."""
    target = link.target
    if target.startswith(("/", "../")) or "/../" in target or "\\" in target:
        return _outside(read.path, link.line, target)
    page = resolver.page(target) if target else None
    if target and page is None:
        name = unicodedata.normalize("NFC", target.rpartition("/")[2]).casefold()
        if "." in name and name in files.names:
            return None  # an attachment
        return _broken(read.path, link.line, f"There is no article named {shortened(target, 100)}.")
    there = articles.get(page) if page else read
    if there is None or not link.anchor or link.anchor.startswith("^"):
        return None
    wanted = slug(link.anchor.rsplit("#", 1)[-1])
    if wanted in there.anchors or name_key(link.anchor) == name_key(there.title):
        return None
    return Finding(
        kind="broken-anchor",
        severity="warning",
        path=read.path,
        line=link.line,
        message=f"{there.path} has no section {shortened(link.anchor, 100)}.",
    )


def _quotes(articles: dict[str, _Read], store: HasConversations | None) -> Iterator[Finding]:
    """Find quotes that are not in their source, source by source."""
    by_source: defaultdict[str, list[tuple[str, Citation, int]]] = defaultdict(list)
    for read in articles.values():
        for citation, line in read.citations:
            by_source[citation.source].append((read.path, citation, line))
    if by_source and (store is None or not store.conversations()):
        message = "Quotes were not checked: no conversations are ingested (mlxbun memory ingest)."
        yield Finding(kind="unchecked-quotes", severity="note", path="", message=message)
        return
    for source, cited in sorted(by_source.items()):
        conversation = store.get(source) if store is not None else None
        texts = {turn.id: turn.text for turn in conversation.turns} if conversation else {}
        for path, citation, line in cited:
            gone = citation.message not in texts
            if gone and store and store.is_forgotten(citation.source, citation.message):
                yield _forgotten(path, citation, line)
            else:
                yield from _quote(path, citation, line, texts, known=conversation is not None)


def _forgotten(path: str, citation: Citation, line: int) -> Finding:
    where = shortened(citation.source, 100)
    message = f"The quote was not checked: its message in {where} is forgotten."
    return Finding(kind="unchecked-quotes", severity="note", path=path, line=line, message=message)


def _quote(
    path: str, citation: Citation, line: int, texts: dict[str, str], *, known: bool
) -> Iterator[Finding]:
    text = texts.get(citation.message)
    if text is None:
        what = f"message {citation.message} of {citation.source}" if known else citation.source
        message = f"Unknown source: {shortened(what, 100)}."
        yield Finding(
            kind="unknown-source", severity="warning", path=path, line=line, message=message
        )
    elif not is_quoted(citation.quote, text):
        message = f"The quoted words are not in {citation.source}: {shortened(citation.quote, 100)}"
        yield Finding(kind="missing-quote", severity="error", path=path, line=line, message=message)


def _file_links(text: str) -> Iterator[tuple[FileLink, int]]:
    if "](" not in text:
        return
    for line in lines.scan(text):
        if line.kind not in ("code", "fence", "comment", "front"):
            for link in links.file_links(text, line.start, line.stop):
                yield link, line.number


def _file_addresses(path: str, text: str) -> Iterator[Finding]:
    at, number = 0, 1
    for match in _FILE_ADDRESS.finditer(text):
        number += text.count("\n", at, match.start())
        at = match.start()
        yield _outside(path, number, match[1])


def _outside(path: str, line: int, target: str) -> Finding:
    return Finding(
        kind="outside-link",
        severity="warning",
        path=path,
        line=line,
        message=f"The link leads out of the vault: {shortened(target, 100)}",
    )


def _broken(path: str, line: int, message: str) -> Finding:
    return Finding(kind="broken-link", severity="warning", path=path, line=line, message=message)
