"""Which snapshots are kept and which one serves a prompt. Policy over lengths and bytes.

Knows snapshots by what they tell (bytes, whether they can be cut); imports no arrays. Lives on the
engine's thread.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from core.engine.cache.trie import Node, TokenTrie

if TYPE_CHECKING:
    from collections.abc import Sequence


class Snapshot(Protocol):
    """The KV of a token sequence."""

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        ...

    @property
    def can_be_cut(self) -> bool:
        """Whether the KV of a shorter prefix can be had from it."""
        ...

    def prefix(self, length: int, of: int) -> list[Any]:
        """Return caches that hold the first `length` of its `of` tokens, sharing its arrays."""
        ...


@dataclass(frozen=True, kw_only=True)
class Hit:
    """The KV that serves the beginning of a prompt."""

    length: int
    """Prompt tokens that it covers."""
    caches: list[Any]
    """One mlx-lm cache a layer, holding exactly these tokens."""


@dataclass(frozen=True, kw_only=True)
class PromptCacheStats:
    """Counters at one moment."""

    entries: int
    """Sequences kept."""
    nbytes: int
    """Bytes that they hold."""
    max_bytes: int
    """The cap, running rows included; 0: off."""
    hits: int
    """Prompts whose beginning was found."""
    misses: int
    """Prompts of which nothing was found."""
    hit_tokens: int
    """Prompt tokens that needed no computing."""


@dataclass(eq=False, kw_only=True)
class _Entry:
    namespace: str
    length: int
    snapshot: Snapshot


class PromptCache:
    """Keeps the most recently used snapshots within a cap in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._tries: dict[str, TokenTrie[_Entry]] = {}
        self._recent: OrderedDict[Node[_Entry], _Entry] = OrderedDict()  # the oldest first
        self._nbytes = 0
        self._hits = self._misses = self._hit_tokens = 0

    @property
    def enabled(self) -> bool:
        """Whether anything is kept at all."""
        return self._max_bytes > 0

    def lookup(self, namespace: str, tokens: Sequence[int]) -> Hit | None:
        """Return the longest beginning of `tokens` that is known, short of its last token.

        The last token has to be computed in any case: its logits are the answer's beginning.

        Args:
            namespace: what else the KV depends on: the adapter.
            tokens: the whole prompt.
        """
        trie = self._tries.get(namespace)
        best = self._best(trie, tokens[:-1]) if trie else None
        if best is None:
            self._misses += 1
            return None
        length, node, entry = best
        self._recent.move_to_end(node)
        self._hits += 1
        self._hit_tokens += length
        return Hit(length=length, caches=entry.snapshot.prefix(length, entry.length))

    def store(self, namespace: str, tokens: Sequence[int], snapshot: Snapshot) -> None:
        """Keep a snapshot of exactly these tokens.

        Shorter ones that it can serve as well go.
        """
        if snapshot.nbytes > self._max_bytes or not tokens:
            return
        trie = self._tries.setdefault(namespace, TokenTrie())
        for length, node in list(trie.prefixes(tokens)):
            if snapshot.can_be_cut or length == len(tokens):
                self._drop(node)
        entry = _Entry(namespace=namespace, length=len(tokens), snapshot=snapshot)
        self._recent[trie.insert(tokens, entry)] = entry
        self._nbytes += snapshot.nbytes
        self.shrink(self._max_bytes)

    def make_room(self, running_bytes: int, room_bytes: int) -> None:
        """Let the oldest go until kept and running KV are within the cap and the memory.

        Args:
            running_bytes: what the running rows hold.
            room_bytes: what the memory has for both.
        """
        self.shrink(max(0, min(self._max_bytes, room_bytes) - running_bytes))

    def shrink(self, max_bytes: int) -> None:
        """Let the oldest go until at most `max_bytes` are held."""
        while self._nbytes > max_bytes:
            self._drop(next(iter(self._recent)))

    def stats(self) -> PromptCacheStats:
        """Return the counters of this moment."""
        return PromptCacheStats(
            entries=len(self._recent),
            nbytes=self._nbytes,
            max_bytes=self._max_bytes,
            hits=self._hits,
            misses=self._misses,
            hit_tokens=self._hit_tokens,
        )

    @staticmethod
    def _best(
        trie: TokenTrie[_Entry], tokens: Sequence[int]
    ) -> tuple[int, Node[_Entry], _Entry] | None:
        shared = trie.longest_shared(tokens)
        if shared is None:
            return None
        length, node = shared
        if node.value is not None and node.value.snapshot.can_be_cut:
            return length, node, node.value
        whole = [(n, found) for n, found in trie.prefixes(tokens) if found.value and n]
        if not whole:
            return None
        length, node = whole[-1]
        assert node.value is not None
        return length, node, node.value

    def _drop(self, node: Node[_Entry]) -> None:
        entry = self._recent.pop(node)
        self._nbytes -= entry.snapshot.nbytes
        self._tries[entry.namespace].remove(node)
