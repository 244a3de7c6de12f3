"""`mlxbun __complete SHELL ...`: what the scripts of the shells call. Never fails, never complains.

__complete bash LINE WORD     the line up to the cursor; the part of it that readline replaces
__complete zsh WORD... TEXT   words without quotes; the last one as it was typed so far
__complete fish WORD... TEXT
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from commands._shared.console import Console
from mlxbun_cli.completion.answer import Answer, answer
from mlxbun_cli.completion.bash import replies, split
from mlxbun_cli.completion.tree import load_tree
from mlxbun_cli.completion.walk import ask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from commands._shared.session import Session


def answer_tab(arguments: Sequence[str]) -> int:
    """Print what the shell may offer, and return 0. Whatever is wrong, that is nothing.

    With `MLXBUN_DEBUG=1` what is wrong is raised.
    """
    environ = dict(os.environ)
    try:
        lines = complete(arguments[0], arguments[1:], environ)
        Console().text("".join(f"{line}\n" for line in lines))
    except (Exception, KeyboardInterrupt):
        if environ.get("MLXBUN_DEBUG", "") not in ("", "0"):
            raise
    return 0


def complete(shell: str, words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the lines for a shell: what is offered beside, and the candidates.

    Args:
        shell: bash, zsh or fish.
        words: what its script hands over.
        environ: the environment.
    """
    if shell == "bash":
        line = split(words[0])
        found = _answer(line.words[1:], line.text, environ)
        offered = [word for word, _ in found.candidates]
        shown_only = found.fit == "scattered"
        return [found.beside, *replies(offered, line, words[1], shown_only=shown_only)]
    found = _answer(words[:-1], split(words[-1]).text, environ)
    head = [found.beside, found.fit] if shell == "zsh" else [found.beside]
    return ["\t".join(head), *(f"{word}\t{told}" for word, told in found.candidates)]


def _answer(words: Sequence[str], text: str, environ: Mapping[str, str]) -> Answer:
    def session() -> Session:
        from commands._shared.session import Session
        from core.paths import Paths

        return Session(environ=environ, paths=Paths.from_environ(environ))

    return answer(ask(load_tree(), words, text), session)
