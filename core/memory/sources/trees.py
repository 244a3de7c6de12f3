"""The current branch of a conversation that is a tree. Pure, linear, without recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def branch(leaf: str, parents: Mapping[str, str | None]) -> list[str]:
    """Return the nodes from the root to a leaf.

    Where a parent is missing, or has been met before (a cycle), the branch begins.

    Args:
        leaf: a node.
        parents: every node's parent; None: a root.
    """
    path: list[str] = []
    seen: set[str] = set()
    at: str | None = leaf
    while at is not None and at in parents and at not in seen:
        seen.add(at)
        path.append(at)
        at = parents[at]
    path.reverse()
    return path


def leaves(parents: Mapping[str, str | None]) -> list[str]:
    """Return the nodes that are no node's parent, in the order of the mapping."""
    inner = set(parents.values())
    return [node for node in parents if node not in inner]
