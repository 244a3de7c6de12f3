"""The radix tree against a plain dictionary of sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.engine.cache.trie import TokenTrie

sequences = st.lists(st.integers(0, 2), min_size=1, max_size=7).map(tuple)


def shared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    count = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        count += 1
    return count


@given(st.lists(sequences), st.lists(st.integers(0, 10)), sequences)
def test_it_finds_what_a_dictionary_would(
    stored: list[tuple[int, ...]], removals: list[int], wanted: tuple[int, ...]
) -> None:
    trie: TokenTrie[tuple[int, ...]] = TokenTrie()
    nodes = {tokens: trie.insert(tokens, tokens) for tokens in stored}
    for index in removals:
        if nodes:
            trie.remove(nodes.pop(list(nodes)[index % len(nodes)]))

    prefixes = [tokens for tokens in nodes if wanted[: len(tokens)] == tokens]
    found = {node.value for _, node in trie.prefixes(wanted)}
    assert found == set(prefixes)
    assert all(node.value == wanted[:length] for length, node in trie.prefixes(wanted))

    best = max((shared(tokens, wanted) for tokens in nodes), default=0)
    result = trie.longest_shared(wanted)
    if best == 0:
        assert result is None
    else:
        assert result is not None
        length, node = result
        assert length == best
        assert node.value is not None
        assert shared(node.value, wanted) == best


def test_a_value_replaces_the_one_of_the_same_tokens() -> None:
    trie: TokenTrie[str] = TokenTrie()
    first = trie.insert([1, 2], "old")
    assert trie.insert([1, 2], "new") is first
    assert [node.value for _, node in trie.prefixes([1, 2, 3])] == ["new"]


def test_nodes_keep_their_identity_when_edges_are_cut_and_joined() -> None:
    trie: TokenTrie[str] = TokenTrie()
    long = trie.insert([1, 2, 3, 4], "long")
    short = trie.insert([1, 2], "short")
    trie.insert([1, 2, 3, 9], "branch")
    trie.remove(short)
    assert long.value == "long"
    trie.remove(long)
    assert trie.longest_shared([1, 2, 3, 4]) is not None
    assert list(trie.prefixes([1, 2, 3, 4])) == []
