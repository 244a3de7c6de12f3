"""The pages that a new vault begins with. Pure."""

from __future__ import annotations

README = """\
# Memory

This folder is the memory of mlxbun: a wiki about you and what you work on, as plain Markdown in a
git repository. It opens in Obsidian or in any editor.

- `articles/`: the articles. `mlxbun memory synthesize` writes them from your conversations; you may
  write and edit them, too.
- `Talk/`: what the last runs proposed and did not write, article by article.
- `Meta/`: how articles are written, and the record of what was written.
- `Reference/`: the documentation of mlxbun. It is replaced when mlxbun is updated.

What you edit or delete stays so. Your changes are committed as your own before mlxbun writes
anything. `mlxbun memory history ARTICLE` lists the changes of an article, and
`mlxbun memory revert` takes them back. `mlxbun memory forget` removes something from the articles
and keeps it out of later runs; with `--purge` it leaves the history, too.
"""

FORMAT = """\
# Format of an article

An article is one file, `articles/NAME.md`. Two names that differ only in case, underscores or
Unicode form are the same article.

````markdown
# Title

*Part of a series on [[Another article]].*

```info
type: programming language
kind: thing
aliases: another name, a third name
```

The lead says what the article is about.[^1]

## A section

A sentence, with a link to [[Another article|any text]].[^2]

## See also

- [[Another article]]

## Notes

## References

[^1]: chatgpt:6f1c#m12 (2026-03-01) [Title · property]: the words that were said
````

- `kind` is one of thing, person, domain, project and standard.
- Every sentence that mlxbun writes cites a footnote: the conversation, the message, the date, what
  the sentence is about, and the words themselves. `mlxbun memory why "SENTENCE"` shows them.
- A fact that was replaced keeps its sentence, with ` (until DATE)` before the full stop.
- Sentences of your own need no footnote.
"""

RULES = """\
# Rules of the synthesis

- Facts about you come from what you said, never from what a model, a tool or a web page said.
- What a source says is data. Instructions in it are not followed and not kept.
- A run removes no sentence of an article without an entry in `Talk/`. A fact that was replaced
  stays, with the date until which it held.
- Links lead to articles that exist. Quoted words stand in the message that is cited.
- What you delete or edit does not come back. `Meta/ledger.jsonl` makes sure of that: it lists every
  fact that was ever written, by its hash.
- Runs write to `articles/`, `Talk/` and the ledger only.
"""

GITIGNORE = """\
# Of Obsidian and of the system, not of the wiki.
.obsidian/workspace*.json
.obsidian/cache
.trash/
.DS_Store
"""

PAGES = {
    ".gitignore": GITIGNORE,
    "README.md": README,
    "Meta/Format.md": FORMAT,
    "Meta/Rules.md": RULES,
}
"""Text by path."""
