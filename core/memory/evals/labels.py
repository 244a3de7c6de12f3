"""The labelled corpus: conversations that we wrote, and the facts that stand in them.

`corpus/project.json` holds 30 conversations on an invented project, `corpus/other.json` ten on
other things, and `corpus/unseen.json` ten more, written by someone who had not read the rule-based
extractor, after it was finished. A name in double braces stands for a secret: it is put together
when the file is read, so that no scanner mistakes the corpus for a leak.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from core.memory.citation import collapsed
from core.memory.names import name_key

if TYPE_CHECKING:
    from core.memory.stages.types import EntityKind
    from core.memory.turns import Role

Part = Literal["project", "other", "unseen"]
PARTS: tuple[Part, ...] = get_args(Part)
"""The parts of the corpus."""
_FOLDER = Path(__file__).parent / "corpus"
_SECRET = re.compile(r"\{\{([a-z0-9-]+)\}\}")


@dataclass(frozen=True, kw_only=True)
class LabelledTurn:
    """One message."""

    id: str
    """Unique in the corpus."""
    role: Role
    """Who wrote it."""
    text: str
    """With its secrets."""
    at: datetime
    """When it was written."""


@dataclass(frozen=True, kw_only=True)
class LabelledFact:
    """What the user says, and what is to come of it."""

    id: str
    """Unique in its part."""
    source: str
    """The conversation, as articles cite it."""
    message: str
    """The user turn."""
    quote: str
    """The words that say so."""
    subject: str
    """What the fact is about, as the user calls it."""
    kind: EntityKind
    """What sort of thing that is."""
    property: str
    """Which property it states."""
    value: str
    """Its value; it stands in the quote."""
    exclusive: bool
    """Whether a later value retires it."""
    sentence: str
    """A sentence for the article."""
    article: str
    """The labelled article to which it belongs."""
    mentions: tuple[str, ...]
    """Other labelled articles that the sentence names."""
    retires: tuple[str, ...]
    """Ids of the facts that it replaces, whichever arrives first."""

    @cached_property
    def key(self) -> FactKey:
        """What recognises it in a question or a footnote."""
        return (self.source, self.message, collapsed(self.quote))


FactKey = tuple[str, str, str]
"""Source, message and quote of a fact."""


@dataclass(frozen=True, kw_only=True)
class LabelledConversation:
    """A conversation and its facts."""

    id: str
    """Its id in the export: `sm-01`."""
    batch: int
    """The run in which it arrives, from 1; not in the order of dates."""
    title: str
    """Of the export."""
    turns: tuple[LabelledTurn, ...]
    """Oldest first."""
    facts: tuple[LabelledFact, ...]
    """May be empty: chatter, echoes, injections."""
    forbidden: tuple[str, ...]
    """Words that no article may have: injected, or said by the assistant only."""

    @property
    def source(self) -> str:
        """How articles cite it."""
        return source_id(self.id)


@dataclass(frozen=True, kw_only=True)
class LabelledArticle:
    """Something that the conversations are about."""

    name: str
    """Unique in its part."""
    kind: EntityKind
    """What sort of thing it is."""
    type: str
    """A short noun phrase."""
    aliases: tuple[str, ...]
    """Other names; namesakes share one."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """All names, as they are compared."""
        return frozenset(name_key(name) for name in (self.name, *self.aliases))


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """One part."""

    part: Part
    """Which."""
    conversations: tuple[LabelledConversation, ...]
    """In the order in which they were written down; `batch` says when they arrive."""
    articles: tuple[LabelledArticle, ...]
    """What they are about."""
    secrets: tuple[tuple[str, str], ...]
    """Name and text of what must not be stored anywhere."""

    @cached_property
    def facts(self) -> tuple[LabelledFact, ...]:
        """All facts, in the order of the conversations."""
        return tuple(fact for talk in self.conversations for fact in talk.facts)

    @cached_property
    def by_key(self) -> dict[FactKey, LabelledFact]:
        """The facts by what recognises them."""
        return {fact.key: fact for fact in self.facts}

    @cached_property
    def user_texts(self) -> dict[tuple[str, str], str]:
        """The text of every user turn, by source and message."""
        return {
            (talk.source, turn.id): turn.text
            for talk in self.conversations
            for turn in talk.turns
            if turn.role == "user"
        }

    def article(self, name: str) -> LabelledArticle:
        """Return a labelled article by its name."""
        return next(article for article in self.articles if article.name == name)

    def batches(self) -> tuple[tuple[LabelledConversation, ...], ...]:
        """Return the conversations by the run in which they arrive."""
        numbers = sorted({talk.batch for talk in self.conversations})
        return tuple(tuple(t for t in self.conversations if t.batch == n) for n in numbers)

    def links(self) -> frozenset[tuple[str, str]]:
        """Return which articles may link to which: one names the other, in either direction."""
        pairs = {(fact.article, name) for fact in self.facts for name in fact.mentions}
        return frozenset(pairs | {(name, article) for article, name in pairs})


def source_id(conversation: str) -> str:
    """Return how articles cite a conversation of the corpus."""
    return f"chatgpt:{conversation}"


@cache
def read_corpus(part: Part) -> Corpus:
    """Return a part of the corpus."""
    raw = json.loads((_FOLDER / f"{part}.json").read_text(encoding="utf-8"))
    secrets = {name: "".join(pieces) for name, pieces in raw["secrets"].items()}
    return Corpus(
        part=part,
        conversations=tuple(_conversation(value, secrets) for value in raw["conversations"]),
        articles=tuple(
            LabelledArticle(**{**value, "aliases": tuple(value["aliases"])})
            for value in raw["articles"]
        ),
        secrets=tuple(secrets.items()),
    )


def _conversation(raw: dict[str, Any], secrets: dict[str, str]) -> LabelledConversation:
    name = raw["id"]
    return LabelledConversation(
        id=name,
        batch=raw["batch"],
        title=raw["title"],
        turns=tuple(_turn(name, turn, secrets) for turn in raw["turns"]),
        facts=tuple(_fact(name, fact) for fact in raw["facts"]),
        forbidden=tuple(raw["forbidden"]),
    )


def _turn(conversation: str, raw: dict[str, str], secrets: dict[str, str]) -> LabelledTurn:
    return LabelledTurn(
        id=f"{conversation}-{raw['id']}",
        role=cast("Role", raw["role"]),
        text=_SECRET.sub(lambda match: secrets[match[1]], raw["text"]),
        at=datetime.fromisoformat(raw["at"]),
    )


def _fact(conversation: str, raw: dict[str, Any]) -> LabelledFact:
    lists = {name: tuple(raw[name]) for name in ("mentions", "retires")}
    message = f"{conversation}-{raw['message']}"
    return LabelledFact(**{**raw, **lists, "message": message}, source=source_id(conversation))


def export(conversations: tuple[LabelledConversation, ...]) -> list[dict[str, Any]]:
    """Return conversations in the form of a ChatGPT export (`conversations.json`)."""
    return [_exported(talk) for talk in conversations]


def _exported(talk: LabelledConversation) -> dict[str, Any]:
    ids = [turn.id for turn in talk.turns]
    return {
        "conversation_id": talk.id,
        "title": talk.title,
        "create_time": talk.turns[0].at.timestamp(),
        "current_node": ids[-1],
        "mapping": {
            turn.id: {
                "id": turn.id,
                "parent": ids[at - 1] if at else None,
                "children": ids[at + 1 : at + 2],
                "message": {
                    "id": turn.id,
                    "author": {"role": turn.role},
                    "create_time": turn.at.timestamp(),
                    "content": {"content_type": "text", "parts": [turn.text]},
                },
            }
            for at, turn in enumerate(talk.turns)
        },
    }
