"""Time of a search in a large vault, the check for changed files included: p50 and p95.

    python -m benchmarks.memory_search                    # 10,000 articles
    python -m benchmarks.memory_search --articles 1000

Writes a corpus with a natural distribution of words, builds the index, and searches in one warm
process: with nothing changed, after one edit before each search, and after 100 edits before each.
"""

from __future__ import annotations

import argparse
import platform
import random
import sqlite3
import statistics
import tempfile
import time
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from core.memory.search.files import Looker
from core.memory.search.index import SearchIndex
from core.memory.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Callable

_SYLLABLES = ("ka", "lo", "mi", "ren", "ta", "su", "vor", "del", "pin", "gra", "os", "el", "ni")
_COMMON = ("the", "of", "and", "to", "in", "a", "is", "was", "for", "on", "with", "as", "by")
_CJK = "東京都大阪府京都市行くた先週日本語勉強会社員新幹線山川田中村上北海道"
_WORDS = 20_000
_ROUNDS = 60


def _vocabulary(rng: random.Random) -> list[str]:
    made = {"".join(rng.choices(_SYLLABLES, k=rng.randint(2, 5))) for _ in range(2 * _WORDS)}
    return [*_COMMON, *sorted(made)[:_WORDS]]


class Corpus:
    """Articles of words that are distributed as in a language (Zipf)."""

    def __init__(self, root: Path, seed: int = 7) -> None:
        self.root = root
        self.rng = random.Random(seed)
        self.vocabulary = _vocabulary(self.rng)
        self._weights = list(accumulate(1 / rank for rank in range(1, len(self.vocabulary) + 1)))

    def write(self, number: int) -> None:
        """Write one article."""
        path = self.root / "articles" / f"Subject {number}.md"
        path.write_text(self._article(number), encoding="utf-8")

    def _article(self, number: int) -> str:
        box = f"```info\ntype: subject\naliases: alias{number}, S-{number}\n```"
        head = f"# Subject {number}\n\n{box}\n\n{self._sentence()}[^1]\n"
        sections = "".join(f"\n## Part {i}\n\n{self._paragraph()}\n" for i in range(1, 5))
        cjk = "".join(self.rng.choices(_CJK, k=40))
        note = f"[^1]: session:{number}#m1 (2026-03-01): {self._sentence()}"
        return f"{head}{sections}\n## 日本語\n\n{cjk}。\n\n## References\n\n{note}\n"

    def _paragraph(self) -> str:
        return "\n".join(f"{self._sentence()} [[Subject {self._other()}]]." for _ in range(4))

    def _sentence(self) -> str:
        words = self.rng.choices(self.vocabulary, cum_weights=self._weights, k=14)
        return " ".join(words).capitalize() + "."

    def _other(self) -> int:
        return self.rng.randrange(10_000)

    def queries(self) -> list[str]:
        """Return what people search for: rare and frequent words, phrases, names, other scripts."""
        rare = [self.rng.choice(self.vocabulary[500:]) for _ in range(8)]
        middle = [self.rng.choice(self.vocabulary[30:500]) for _ in range(8)]
        pairs = [f"{one} {two}" for one, two in zip(middle, rare, strict=True)]
        starts = [f"{word[:5]}*" for word in rare[:4]]
        phrases = [f'"{one} {two}"' for one, two in pairwise(middle)]
        names = [f"Subject {self._other()}" for _ in range(4)]
        others = ["東京", "京", "the", "where is the " + middle[0], "nosuchword", "S-17", "C++"]
        return rare + middle + pairs + starts + phrases[:4] + names + others


def measure(search: Callable[[str], object], queries: list[str], before: Callable[[], None]) -> str:
    """Return p50 and p95 of a search in milliseconds: by the clock, and of this process's CPU."""
    walls: list[tuple[float, str]] = []
    cpus: list[float] = []
    for round_ in range(_ROUNDS):
        before()
        query = queries[round_ % len(queries)]
        began, used = time.perf_counter(), time.process_time()
        search(query)
        cpus.append((time.process_time() - used) * 1000)
        walls.append(((time.perf_counter() - began) * 1000, query))
    slowest, query = max(walls)
    clock = _percentiles([wall for wall, _ in walls])
    return f"{clock}  CPU {_percentiles(cpus)}  slowest {slowest:6.1f} ms ({query})"


def _percentiles(times: list[float]) -> str:
    ordered = sorted(times)
    return f"p50 {statistics.median(ordered):6.1f} p95 {ordered[int(len(ordered) * 0.95)]:6.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--articles", type=int, default=10_000)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "wiki")
        (root / "articles").mkdir(parents=True)
        corpus = Corpus(root)
        for number in range(wanted.articles):
            corpus.write(number)
        vault = Vault(root)
        index = SearchIndex(Path(folder, "cache", "search.db"), on_note=print)
        began = time.perf_counter()
        index.refresh(vault)
        built = time.perf_counter() - began
        size = Path(folder, "cache", "search.db").stat().st_size
        print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
        print(f"{wanted.articles} articles, {built:.1f} s to build, {size / 2**20:.0f} MiB")
        time.sleep(3)  # files as fresh as these are read once more
        index.refresh(vault)
        queries = corpus.queries()

        def edit(count: int) -> None:
            for _ in range(count):
                corpus.write(corpus.rng.randrange(wanted.articles))

        looker = Looker()

        def search(query: str) -> object:
            return index.search(vault, query)

        print("check alone   ", measure(lambda _query: looker.look(root), queries, lambda: None))
        print("nothing edited", measure(search, queries, lambda: None))
        print("1 edit        ", measure(search, queries, lambda: edit(1)))
        print("100 edits     ", measure(search, queries, lambda: edit(100)))


if __name__ == "__main__":
    main()
