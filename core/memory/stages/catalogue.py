"""What the stages know of the articles there are: names, aliases, and texts as they are needed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from core.errors import MlxbunError, NotFound
from core.memory.article import parse, sentences
from core.memory.citation import parse_citation
from core.memory.names import name_key
from core.memory.plain import unlinked
from core.memory.vault import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.memory.article import Article, Sentence
    from core.memory.citation import Citation
    from core.memory.vault import Names, Page

_MOST_CANDIDATES = 12
_MOST_WORDS = 12


class Pages(Protocol):
    """The reading side of a vault (`core.memory.vault.Vault`)."""

    def names(self) -> Names:
        """Return the names of all pages."""
        ...

    def read(self, path_or_name: str) -> Page:
        """Return a page, by its name or its path."""
        ...

    def aliases(self, name: str) -> tuple[str, ...]:
        """Return title and aliases of an article."""
        ...


@dataclass(frozen=True)
class Known:
    """An article of the vault, parsed."""

    name: str
    """Its name."""
    page: Page
    """The file as it was read."""

    @cached_property
    def article(self) -> Article:
        """Its parts."""
        return parse(self.page.text)

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """Its sentences, in order."""
        return sentences(self.article)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Its sentences without links."""
        return tuple(unlinked(sentence.text) for sentence in self.sentences)

    def citations(self, sentence: Sentence) -> tuple[Citation, ...]:
        """Return what the footnotes of a sentence cite, without those of another kind."""
        notes = (self.article.footnote(label) for label in sentence.labels)
        found = (parse_citation(note.text) for note in notes if note is not None)
        return tuple(citation for citation in found if citation is not None)


class Catalogue:
    """The articles of a vault, by every name they have. Reads each at most once."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._known: dict[str, Known | None] = {}
        self._by_key: dict[str, list[str]] = defaultdict(list)
        self._by_prefix: dict[str, list[str]] = defaultdict(list)
        self._spelled: dict[str, list[str]] = defaultdict(list)
        self.problems: dict[str, str] = {}
        """Articles that cannot be read or written, and why."""
        found = pages.names()
        self.names = found.articles
        self.reference = found.reference
        for name in found.articles:
            self.add(name, pages.aliases(name))

    def add(self, name: str, others: Iterable[str] = ()) -> None:
        """Add an article, in the vault or planned, with its other names."""
        for other in unique((name, *others)):
            self._by_key[name_key(other)].append(name)
            self._spelled[name_key(other)].append(other)
            for prefix in _prefixes(bare_key(other)):
                self._by_prefix[prefix].append(name)

    def remove(self, name: str) -> None:
        """Forget an article that was planned and is not made after all."""
        for index in (self._by_key, self._by_prefix):
            for key, names in index.items():
                index[key] = [other for other in names if other != name]

    def has(self, name: str) -> bool:
        """Return whether a name, in any spelling, is one of an article or its alias."""
        return bool(self._by_key.get(name_key(name)))

    def meant(self, name: str) -> tuple[str, ...]:
        """Return the articles with this name or alias, in any spelling."""
        return tuple(dict.fromkeys(self._by_key.get(name_key(name), ())))

    def like(self, subject: str) -> tuple[str, ...]:
        """Return the articles that a subject may mean, those with its very name first.

        One of the two names is the beginning of the other, qualifiers aside.
        """
        found = dict.fromkeys(self.meant(subject))
        bare = bare_key(subject)
        for prefix in reversed(_prefixes(bare)):
            found.update(dict.fromkeys(self._by_key.get(prefix, ())))
        found.update(dict.fromkeys(self._by_prefix.get(bare, ())))
        return tuple(found)[:_MOST_CANDIDATES]

    def known(self, name: str) -> Known | None:
        """Return an article; None: it cannot be read or written (see `problems`)."""
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return how the names with this key are written."""
        return tuple(self._spelled.get(name_key(name), ()))

    def namesakes(self, name: str) -> tuple[str, ...]:
        """Return the articles that a name in a text may mean: also those with a qualifier."""
        found = dict.fromkeys(self.meant(name))
        key = name_key(name)
        for other in self._by_prefix.get(key, ()):
            if bare_key(other) == key:
                found[other] = None
        return tuple(found)

    def page(self, path: str) -> Page | None:
        """Return a page by its path; None: there is none.

        Raises:
            MlxbunError: it cannot be read.
        """
        try:
            return self._pages.read(path)
        except NotFound:
            return None

    def _read(self, name: str) -> Known | None:
        try:
            page = self._pages.read(path_of(name))
        except MlxbunError as failure:
            self.problems[name] = failure.message
            return None
        if page.warning is not None:
            self.problems[name] = page.warning
            return None
        return Known(name, page)


def bare_key(name: str) -> str:
    """Return the key of a name without "(qualifier)"."""
    return name_key(name).partition(" (")[0]


def _prefixes(key: str) -> list[str]:
    words = key.split(" ")[:_MOST_WORDS]
    return [" ".join(words[:length]) for length in range(1, len(words) + 1)]


def qualifier_of(name: str) -> str:
    """Return the key of the qualifier in "Name (qualifier)"; empty: it has none."""
    _, opened, rest = name_key(name).partition(" (")
    return rest.removesuffix(")") if opened and rest.endswith(")") else ""


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without those that differ only in spelling from an earlier one."""
    found: dict[str, str] = {}
    for name in names:
        if name.strip():
            found.setdefault(name_key(name), name)
    return tuple(found.values())
