"""A radix tree over token sequences. Pure Python; knows neither arrays nor policy.

An edge holds a run of tokens, so that a prompt of thousands of tokens is a handful of nodes, and
comparing runs is a slice comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Node(Generic[_Value]):
    """A place in the tree.

    Attributes:
        value: what was stored for the tokens that lead here, or None.
    """

    __slots__ = ("children", "edge", "parent", "value")

    def __init__(self, edge: tuple[int, ...], parent: Node[_Value] | None) -> None:
        self.edge = edge
        self.parent = parent
        self.children: dict[int, Node[_Value]] = {}
        self.value: _Value | None = None


class TokenTrie(Generic[_Value]):
    """Maps token sequences to values and finds those that share the longest prefix."""

    def __init__(self) -> None:
        self._root: Node[_Value] = Node((), None)

    def insert(self, tokens: Sequence[int], value: _Value) -> Node[_Value]:
        """Store a value, replacing the one of the same tokens, and return its node."""
        node, position = self._root, 0
        while position < len(tokens):
            child = node.children.get(tokens[position])
            if child is None:
                node = self._grow(node, tuple(tokens[position:]))
                break
            shared = _shared(child.edge, tokens, position)
            position += shared
            node = child if shared == len(child.edge) else self._split(child, shared)
        node.value = value
        return node

    def remove(self, node: Node[_Value]) -> None:
        """Take a node's value out, and the nodes that lead to nothing any more."""
        node.value = None
        while node.parent is not None and node.value is None and not node.children:
            del node.parent.children[node.edge[0]]
            node = node.parent
        self._join(node)

    def prefixes(self, tokens: Sequence[int]) -> Iterator[tuple[int, Node[_Value]]]:
        """Yield (length, node) for every stored sequence that is a prefix of `tokens`."""
        node, position = self._root, 0
        while True:
            if node.value is not None:
                yield position, node
            child = node.children.get(tokens[position]) if position < len(tokens) else None
            if child is None or _shared(child.edge, tokens, position) < len(child.edge):
                return
            position += len(child.edge)
            node = child

    def longest_shared(self, tokens: Sequence[int]) -> tuple[int, Node[_Value]] | None:
        """Return (shared, node): a stored sequence that shares the longest beginning, or None.

        The sequence may go on after `shared` tokens, in another way than `tokens`.
        """
        node, position = self._root, 0
        while position < len(tokens):
            child = node.children.get(tokens[position])
            if child is None:
                break
            shared = _shared(child.edge, tokens, position)
            position += shared
            node = child
            if shared < len(child.edge):
                break
        if position == 0:
            return None
        while node.value is None:  # every leaf has one
            node = next(iter(node.children.values()))
        return position, node

    def _grow(self, parent: Node[_Value], edge: tuple[int, ...]) -> Node[_Value]:
        node = Node(edge, parent)
        parent.children[edge[0]] = node
        return node

    def _split(self, node: Node[_Value], at: int) -> Node[_Value]:
        """Put a node in the middle of the edge that leads to `node`, which keeps its identity."""
        assert node.parent is not None
        middle = self._grow(node.parent, node.edge[:at])
        node.edge, node.parent = node.edge[at:], middle
        middle.children[node.edge[0]] = node
        return middle

    def _join(self, node: Node[_Value]) -> None:
        """Merge a node that only leads on into its one child, which keeps its identity."""
        if node.parent is None or node.value is not None or len(node.children) != 1:
            return
        (child,) = node.children.values()
        child.edge, child.parent = node.edge + child.edge, node.parent
        node.parent.children[child.edge[0]] = child


def _shared(edge: tuple[int, ...], tokens: Sequence[int], position: int) -> int:
    """Return how many tokens of `edge` stand in `tokens` at `position`."""
    run = tuple(tokens[position : position + len(edge)])
    if run == edge:
        return len(edge)
    return next(
        (index for index, pair in enumerate(zip(edge, run, strict=False)) if pair[0] != pair[1]),
        min(len(edge), len(run)),
    )
