"""Links between pages: what a name in double brackets means, and who links to whom. Reads only."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from core.errors import BadRequest, NotFound, StoreCorrupt
from core.memory import links
from core.memory.article import parse
from core.memory.names import REFERENCE, SUFFIX, name_key
from core.memory.vault import ARTICLES, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.vault import Names, Vault


@dataclass(frozen=True, kw_only=True)
class ArticleLinks:
    """The links of one article."""

    name: str
    """Its name."""
    outbound: tuple[str, ...]
    """Articles that it links to, sorted; itself is left out."""
    inbound: tuple[str, ...]
    """Articles that link to it, sorted."""
    reference: tuple[str, ...]
    """Pages in `Reference/` that it links to, sorted."""
    unresolved: tuple[str, ...]
    """Names without a page, as written, in order."""


class Resolver:
    """Says which page a link means; reads the names once, and aliases when one is needed."""

    def __init__(self, vault: Vault, names: Names | None = None) -> None:
        """Take a vault, and its names if the caller knows them."""
        self._vault = vault
        self.names = names or vault.names()
        self._pages = {name_key(n): n for n in reversed(self.names.articles)}
        self._pages |= {name_key(n): n for n in reversed(self.names.reference)}

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Article by key of its title and aliases; the first article of a shared alias."""
        found: dict[str, str] = {}
        for name in self.names.articles:
            for alias in self._vault.aliases(name):
                found.setdefault(name_key(alias), name)
        return found

    def page(self, target: str) -> str | None:
        """Return the name of the page that a link's target means; None: there is none.

        As `Vault.find`: exact name, then name without case, then titles and aliases. Obsidian may
        write the folder of an article before its name.
        """
        bare = target.removeprefix(f"{ARTICLES}/").removesuffix(SUFFIX)
        if bare in self._exact:
            return bare
        key = name_key(bare)
        return self._pages.get(key) or self.aliases.get(key)

    @cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset(self.names.articles + self.names.reference)


def links_of(vault: Vault, name: str) -> ArticleLinks:
    """Return the links from and to an article.

    Raises:
        BadRequest: the name cannot be one, or is that of a page in `Reference/` (field `name`).
        NotFound: there is no such article.
        StoreCorrupt: it cannot be read.
        VaultMissing: there is no vault.
    """
    page = vault.read(vault.find(name), whole=False)
    if page.name.startswith(REFERENCE):
        message = f"{page.name} is documentation; links are listed for articles only."
        raise BadRequest(message, field="name")
    resolver = Resolver(vault)
    targets = [link.target for link in parse(page.text).links if link.target]
    found = {target: resolver.page(target) for target in dict.fromkeys(targets)}
    pages = sorted({each for each in found.values() if each and each != page.name})
    return ArticleLinks(
        name=page.name,
        outbound=tuple(each for each in pages if not each.startswith(REFERENCE)),
        inbound=tuple(sorted(_inbound(vault, resolver, page.name))),
        reference=tuple(each for each in pages if each.startswith(REFERENCE)),
        unresolved=tuple(target for target, each in found.items() if each is None),
    )


def _inbound(vault: Vault, resolver: Resolver, name: str) -> Iterator[str]:
    """Yield the articles that link to one. Texts that cannot are not parsed."""
    own = {name_key(name), *(name_key(alias) for alias in vault.aliases(name))}
    for other in resolver.names.articles:
        text = "" if other == name else _text(vault, other)
        if any(_key(target) in own for target in links.targets(text)) and any(
            resolver.page(link.target) == name for link in parse(text).links
        ):
            yield other


def _key(target: str) -> str:
    return name_key(target.removeprefix(f"{ARTICLES}/"))


def _text(vault: Vault, name: str) -> str:
    with suppress(NotFound, StoreCorrupt):
        return vault.read(path_of(name), whole=False).text
    return ""
