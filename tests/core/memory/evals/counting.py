"""Figures counted from a vault's Markdown files and git alone, by other means than the product's.

Shares no code with `core.memory`: an error in its parser or its scorer cannot hide here.
"""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_NOTE = re.compile(r"^\[\^([^\]]+)\]: (\S+)#(\S+) \((\S+)\) \[(.*?) · (.*?)\]: (.*)$")
_MARK = re.compile(r"\[\^([^\]]+)\]")
_LINK = re.compile(r"\[\[([^\]|#]*)(?:#[^\]|]*)?(?:\|([^\]]*))?\]\]")
_UNTIL = re.compile(r" \(until \d{4}-\d\d-\d\d\)")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What was counted."""

    facts: frozenset[str]
    """Labelled facts whose sentence or citation stands in an article of the right name."""
    misplaced: tuple[str, ...]
    """Labelled facts in an article that has none of the right names."""
    notes: int
    """Footnotes."""
    bad_notes: tuple[str, ...]
    """Those that do not quote a user turn of their source, or that no sentence uses."""
    links: int
    """Wikilinks."""
    dead_links: tuple[str, ...]
    """Those that lead to no file."""
    lost: tuple[str, ...]
    """Sentences of a commit that no article of the next one has."""


def folded(text: str) -> str:
    """Return a text as it is compared here: NFC, without case, spaces collapsed."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def count(
    root: Path,
    *,
    turns: Mapping[tuple[str, str], str],
    facts: Iterable[tuple[str, str, str, str, frozenset[str]]],
) -> Counts:
    """Count what a vault has.

    Args:
        root: the vault.
        turns: the user turns as they were stored, by source and message.
        facts: id, source, message, quote and the folded names of the article, of every label.
    """
    pages = {path.stem: path.read_text("utf-8") for path in (root / "articles").glob("*.md")}
    names = {folded(name) for name in pages} | {folded(p.stem) for p in root.glob("Reference/*.md")}
    for text in pages.values():
        box = re.search(r"^aliases: (.*)$", text, re.MULTILINE)
        names |= {folded(alias) for alias in box[1].split(",")} if box else set()
    links = [(p, m[1]) for p, text in pages.items() for m in _LINK.finditer(text)]
    good, bad, found, misplaced = 0, [], set(), []
    known = list(facts)
    for page, text in pages.items():
        body = text.partition("## References")[0]
        used = set(_MARK.findall(body))
        for line in text.splitlines():
            if not line.startswith("[^"):
                continue
            good += 1
            note = _NOTE.match(line)
            said = folded(turns.get((note[2], note[3]), "")) if note else ""
            if note is None or folded(note[7]) not in said or note[1] not in used:
                bad.append(f"{page}: {line}")
                continue
            for label, source, message, quote, article in known:
                if (source, message, folded(quote)) == (note[2], note[3], folded(note[7])):
                    here = {folded(page), folded(page.partition(" (")[0])}
                    if here & article:
                        found.add(label)
                    else:
                        misplaced.append(f"{page}: {label}")
    return Counts(
        facts=frozenset(found),
        misplaced=tuple(misplaced),
        notes=good,
        bad_notes=tuple(bad),
        links=len(links),
        dead_links=tuple(f"{p}: {t}" for p, t in links if folded(t) not in names),
        lost=tuple(_lost(root)),
    )


def _lost(root: Path) -> Iterable[str]:
    """Yield the sentences that a commit has and the next one has not."""
    before: set[str] = set()
    for commit in _git(root, "rev-list", "--reverse", "HEAD").split():
        listed = _git(root, "ls-tree", "-r", "-z", "--name-only", commit, "articles/")
        paths = [path for path in listed.split("\0") if path.endswith(".md")]
        text = "\n".join(_git(root, "show", f"{commit}:{path}") for path in paths)
        after = set(_sentences(text))
        yield from sorted(before - after)
        before = after


def _sentences(text: str) -> Iterable[str]:
    """Yield what stands before each footnote mark, without links and end dates."""
    prose = "\n".join(
        line for line in text.splitlines() if line[:2] not in ("[^", "# ", "##") and line[:1] != "*"
    )
    plain = _LINK.sub(lambda m: m[2] or m[1], _UNTIL.sub("", prose))
    for piece in re.split(r"(?:\[\^[^\]]+\])+", plain):
        yield folded(piece.rpartition("\n")[2])


def _git(root: Path, *args: str) -> str:
    result = subprocess.run(
        ("git", "-C", str(root), *args), check=True, capture_output=True, timeout=60
    )
    return result.stdout.decode("utf-8")
