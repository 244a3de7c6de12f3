"""Articles for tests, and strategies that make texts as hostile as the format allows."""

from __future__ import annotations

from hypothesis import strategies as st

ADA = """\
---
title: x
aliases: [Foo, "Bar Baz"]
---
# Ada Lovelace

*Part of a series on [[Computing|the thing]].*

```info
type: mathematician
kind: person
aliases: Augusta, Lady L.
```

Ada lives in Lyon.[^1] She met Dr. Smith at 3.14 p.m. in [[St. Paul|St. P. x]].[^2]

A second paragraph, with `[[code]]` and ![[embed#Sec]].

## Early life
- one item. two
- second item.[^2]

### 東京
東京に行った。「はい。」と言った。次。[^3]

## Early life
> quoted. Text
> continues.

| a | b |
| - | - |
| x. y | z |

## See also
- [[Foo]]

## References
[^1]: chatgpt:6f1c#m12 (2026-03-01) [Ada Lovelace · home city]: I moved to Lyon
   last week.
[^2]: a
[^3]: b

    more b
"""

PIECES = (
    *("\n", "\n\n", "\r\n", "\r", " ", "    ", "\t", "\ufeff", "\x00", "\u2028", "\x0b"),
    *("# ", "## ", "###### ", "#", "---\n", "---", "> ", "- ", "1. ", "| ", "|", "*", "_", "\\"),
    *("```", "````", "~~~", "```info\n", "info", "type: x\n", "`", "``", "<!--", "-->"),
    *("[[", "]]", "![[", "[", "]", "](x.md)", "](../y)", "<http://x>"),
    *("[^1]", "[^1]: ", "[^a.b]", "[^", "(until 2026-01-01)"),
    *("a", "Ada", "word ", "e.g. ", "3.14", ". ", "! ", "? ", "。", "「", "」", "東京"),
    *("क्या।", "؟", "ไทย", "é", "e\u0301", "\U0001f469\u200d\U0001f467"),
    *("See also\n", "References\n", "aliases: a, b\n", "*Part of a series on [[X]].*\n"),
)

hostile = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
"""Texts of pieces that mean something to the format."""
SENTENCES = (
    "Ada lives in Lyon.",
    "She met Dr. Smith at 3.14 p.m. there.",
    "東京に行った。",
    "It costs 5 € a day!",
)
"""Sentences that every place can hold."""


def is_insertion(before: str, after: str) -> bool:
    """Return whether a text is another one with one run of characters added."""
    start = 0
    while start < len(before) and before[start] == after[start]:
        start += 1
    rest = len(before) - start
    return len(after) >= len(before) and after[len(after) - rest :] == before[start:]
