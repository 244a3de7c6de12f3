"""Chats that repeat what memory says, to see that memory does not feed on itself.

A round asks the tools about articles, as `mlxbun chat --memory` does, lets the assistant repeat the
answers, and lets the user paste them back in the ways in which people do. The chat is kept as a
session file, which the next run reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.memory.article import parse, sentences
from core.memory.tools import MemoryTools
from core.memory.vault import path_of
from core.sessions.conversation import said
from core.sessions.store import SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from core.memory.opening import Memory
    from core.memory.vault import Vault

_ARTICLES = 4
"""Articles of a round."""


def facts_and_sentences(vault: Vault) -> tuple[int, int]:
    """Return how many citations and how many sentences the articles have."""
    articles = [parse(vault.read(path_of(n)).text) for n in vault.names().articles]
    return sum(len(a.footnotes) for a in articles), sum(len(sentences(a)) for a in articles)


def write_chat(memory: Memory, turn: int, now: datetime) -> None:
    """Keep a chat about some articles as a session file.

    Args:
        memory: the vault, and where sessions lie.
        turn: number of the round, from 0; other rounds are about other articles.
        now: when the chat takes place, with a time zone.
    """
    names = memory.vault.names().articles
    chosen = [names[(turn * _ARTICLES + at) % len(names)] for at in range(_ARTICLES)]
    lines = [line for at, name in enumerate(chosen) for line in _about(memory, name, turn + at)]
    writer = SessionStore(memory.paths.sessions_folder).create(
        {"cwd": "/", "model": "scripted"}, first=lines[0][1], now=now
    )
    try:
        for role, text in lines:
            writer.append(said(role, text), now=now)
    finally:
        writer.close()


def _about(memory: Memory, name: str, way: int) -> Iterator[tuple[str, str]]:
    """Yield the messages about one article."""
    result = MemoryTools(lambda: memory).call("memory_read", {"name": name})
    texts = [s.text for s in sentences(parse(memory.vault.read(path_of(name)).text))]
    yield "user", f"What do you know about {name}?"
    yield "tool", result
    yield "assistant", " ".join(texts)
    yield "user", _pasted(result, texts, way)
    yield "assistant", "You are welcome. " + " ".join(texts[:2])


def _pasted(result: str, texts: list[str], way: int) -> str:
    """Return what the user pastes back."""
    bullets = "\n".join(f"- {sentence}" for sentence in texts)
    return (
        " ".join(texts),
        f"Thanks! {bullets}",
        "\n".join(f"> {sentence}" for sentence in texts) + "\n\nThanks.",
        result,
        f'"{" ".join(texts)}"\n\nIs that all?',
        f"{bullets}\n",
    )[way % 6]
