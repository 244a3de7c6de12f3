"""Shell completion: what Tab offers in bash, zsh and fish.

    shell ──▶ mlxbun __complete SHELL … ──▶ walk: which word is it? ──▶ tree, verbs.json
                                        └─▶ answer: what may it become? ──▶ functions of commands

The verbs and options come from a table that `make completions` writes, so that Tab imports neither
Typer nor what Typer imports; values come from functions in `commands._shared.completion`, by name.
"""
