"""Several answers to one prompt: who computes it, and how each is seeded. Imports no arrays.

The first of them to start leads: it computes the prompt up to its last token. The others wait for
that KV and go on from copies of it, each with the prompt's last token.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.engine.cache.store import Snapshot
    from core.engine.request import SamplingParams
    from core.engine.scheduler import Row

_MASK = 2**64 - 1


@dataclass(eq=False, kw_only=True)
class Family:
    """The answers to one prompt. Lives on the engine's thread once its rows are queued."""

    members: list[Row] = field(default_factory=list)
    """All of them, in the order of their choices."""
    leader: Row | None = None
    """The one that computes the prompt, while the others' KV is still to come."""
    cached: int = 0
    """Prompt tokens whose KV came from the prompt cache."""
    kv: Snapshot | None = None
    """KV of `shared` prompt tokens, from when they are computed until every member has it."""

    @property
    def shared(self) -> int:
        """Prompt tokens that are computed once: all but the last, whose logits each row needs."""
        return len(self.members[0].prompt) - 1

    @property
    def complete(self) -> bool:
        """Whether nobody will ask for the KV any more."""
        return not any(row.pending and not row.generation.cancelled for row in self.members)

    def forget(self) -> None:
        """Let the KV go; the next member to start leads."""
        self.leader = self.kv = None


def choice_sampling(sampling: SamplingParams, index: int) -> SamplingParams:
    """Return how a request's n-th answer chooses its tokens: as all do, with a seed of its own."""
    seed = sampling.seed if sampling.seed is None else choice_seed(sampling.seed, index)
    return replace(sampling, seed=seed)


def choice_seed(seed: int, index: int) -> int:
    """Return the seed of a request's n-th answer: the first has the request's own.

    The others' are splitmix64's outputs (Steele, Lea and Flood 2014), cut to 32 bits.

    Args:
        seed: any integer.
        index: which answer, from 0.
    """
    if not index:
        return seed
    mixed = (seed + index * 0x9E3779B97F4A7C15) & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return (mixed ^ mixed >> 31) >> 32
