"""Which snapshot serves a prompt, and which one goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.engine.cache.store import PromptCache


@dataclass(frozen=True)
class Fake:
    """A snapshot that only tells what it is asked for."""

    name: str
    nbytes: int = 10
    can_be_cut: bool = True

    def prefix(self, length: int, of: int) -> list[Any]:
        return [self.name, length, of]


def test_the_longest_beginning_is_found_and_cut() -> None:
    cache = PromptCache(1000)
    cache.store("", [1, 2, 3, 4, 5], Fake("a"))
    cache.store("", [1, 2, 9], Fake("b"))
    hit = cache.lookup("", [1, 2, 3, 7, 7])
    assert hit is not None
    assert (hit.length, hit.caches) == (3, ["a", 3, 5])


def test_the_last_token_is_always_left_to_compute() -> None:
    cache = PromptCache(1000)
    cache.store("", [1, 2, 3], Fake("a"))
    hit = cache.lookup("", [1, 2, 3])
    assert hit is not None
    assert hit.length == 2
    assert cache.lookup("", [1]) is None


def test_what_cannot_be_cut_serves_only_what_goes_on_from_it() -> None:
    cache = PromptCache(1000)
    cache.store("", [1, 2], Fake("short", can_be_cut=False))
    cache.store("", [1, 2, 3, 4], Fake("long", can_be_cut=False))
    longer, branch, shorter = (
        cache.lookup("", tokens) for tokens in ([1, 2, 3, 4, 5], [1, 2, 3, 9, 9], [1, 9])
    )
    assert longer is not None
    assert longer.caches == ["long", 4, 4]
    assert branch is not None
    assert branch.caches == ["short", 2, 2]
    assert shorter is None


def test_a_longer_snapshot_replaces_what_it_can_serve() -> None:
    cache = PromptCache(1000)
    cache.store("", [1, 2], Fake("short"))
    cache.store("", [1, 2, 3], Fake("long"))
    assert cache.stats().entries == 1
    cache.store("", [1, 2, 3], Fake("again"))
    assert cache.stats().entries == 1
    cache.store("", [7], Fake("fixed", can_be_cut=False))
    cache.store("", [7, 8], Fake("longer", can_be_cut=False))
    assert cache.stats().entries == 3


def test_the_least_recently_used_goes_first() -> None:
    cache = PromptCache(25)
    cache.store("", [1], Fake("one"))
    cache.store("", [2], Fake("two"))
    assert cache.lookup("", [1, 5]) is not None
    cache.store("", [3], Fake("three"))
    assert cache.lookup("", [2, 5]) is None
    assert cache.lookup("", [1, 5]) is not None
    assert cache.stats().nbytes == 20


def test_running_rows_count_towards_the_cap() -> None:
    cache = PromptCache(30)
    for token in (1, 2, 3):
        cache.store("", [token], Fake(str(token)))
    cache.make_room(running_bytes=5, room_bytes=1000)
    assert cache.stats().entries == 2
    cache.make_room(running_bytes=5, room_bytes=15)
    assert cache.stats().entries == 1
    cache.make_room(running_bytes=1000, room_bytes=1000)
    assert (cache.stats().entries, cache.stats().nbytes) == (0, 0)


def test_what_exceeds_the_cap_is_not_kept() -> None:
    cache = PromptCache(5)
    cache.store("", [1], Fake("big"))
    assert cache.stats().entries == 0
    assert not PromptCache(0).enabled


def test_namespaces_do_not_mix() -> None:
    cache = PromptCache(1000)
    cache.store("adapter", [1, 2, 3], Fake("a"))
    assert cache.lookup("", [1, 2, 3, 4]) is None
    assert cache.lookup("adapter", [1, 2, 3, 4]) is not None


def test_the_counters() -> None:
    cache = PromptCache(1000)
    cache.store("", [1, 2, 3], Fake("a"))
    cache.lookup("", [1, 2, 9])
    cache.lookup("", [9, 9])
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.hit_tokens, stats.max_bytes) == (1, 1, 2, 1000)
