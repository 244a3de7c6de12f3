"""The prompt cache: KV of token sequences that were computed before, found by longest prefix.

`trie` and `store` plan and know no arrays; `snapshot` has them.
"""
