"""What the stages hand to each other. Plain data, kept as JSON between stages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Stage = Literal[
    "ingest",
    "segment",
    "extract",
    "route",
    "create",
    "section-route",
    "patch",
    "link",
    "wikify",
]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the order in which they run."""
EntityKind = Literal["thing", "person", "domain", "project", "standard"]


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Output of `segment`: turns of one conversation that stand together."""

    id: str
    """`SOURCE#FIRST-LAST`."""
    source: str
    """The conversation."""
    messages: tuple[str, ...]
    """Ids of the turns, in order; at least one of them a user's."""
    title: str
    """What they are about; may be empty."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Output of `extract`: one thing that the user said."""

    id: str
    """Hash of source, message, quote, subject and property: the same in every run."""
    subject: str
    """What it is about, as the user calls it."""
    kind: EntityKind
    """What sort of thing the subject is."""
    property: str
    """Which property it states, a few words: `home city`."""
    value: str
    """Its value, a few words."""
    exclusive: bool
    """Whether a subject has one value of this property at a time: a later one retires it."""
    sentence: str
    """The sentence for the article, with a full stop; no links, no footnotes, no markup."""
    source: str
    """The conversation."""
    message: str
    """The user turn."""
    quote: str
    """Words of the turn that say so (`core.memory.citation.is_quoted`)."""
    date: str | None
    """Day of the turn, `YYYY-MM-DD`; None: unknown."""


@dataclass(frozen=True, kw_only=True)
class Routed:
    """Output of `route`: the article to which a fact belongs."""

    fact: str
    """The fact's id."""
    article: str
    """Name of the article, there already or to be created."""
    new: bool
    """Whether it is to be created."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Output of `create`: the beginning of a new article."""

    article: str
    """Its name."""
    kind: EntityKind
    """What sort of thing it is about."""
    type: str
    """A short noun phrase for the infobox; may be empty."""
    aliases: tuple[str, ...]
    """Other names that the sources use for it."""
    lead: tuple[str, ...]
    """Ids of the facts that make the lead, in order; at least one."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Output of `section-route`: the section to which a fact belongs."""

    fact: str
    """The fact's id."""
    article: str
    """Name of the article."""
    anchor: str | None
    """Anchor of the section; an empty string: the lead; None: a new section."""
    heading: str
    """Heading of the new section; empty where `anchor` is set."""


@dataclass(frozen=True, kw_only=True)
class Patched:
    """Output of `patch`, `link` and `wikify`: an article as it is to be."""

    article: str
    """Its name."""
    path: str
    """Where it lies in the vault: `articles/NAME.md`."""
    before: str | None
    """SHA-256 of the file's bytes for which this was planned; None: there was none."""
    text: str
    """The whole new text."""
    facts: tuple[str, ...]
    """Ids of the facts that are in it now, because of this run."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What the pipeline did not take from the model, for the article's page in `Talk/`."""

    stage: Stage
    """Where."""
    article: str
    """Whose page it goes to; empty: `Talk/Synthesis.md`."""
    reason: str
    """Why, in one sentence."""
    text: str
    """What was refused, at most 500 characters."""


@dataclass(frozen=True, kw_only=True)
class TalkPage:
    """A page under `Talk/` as it is to be."""

    path: str
    """Where it lies in the vault: `Talk/NAME.md`."""
    before: str | None
    """SHA-256 of the file's bytes for which this was planned; None: there was none."""
    text: str
    """The whole new text."""


FactState = Literal["written", "talk", "rejected"]
"""Where a fact went: into an article, onto a Talk page only, or nowhere, by the user's decision."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What became of a fact, for the ledger (`core.memory.ledger`)."""

    fact: Fact
    """The fact."""
    article: str
    """The article to which it belongs."""
    state: FactState
    """Where it went."""
    sentence: str = ""
    """The sentence of the article that states it, without markup; empty: there is none."""


@dataclass(frozen=True, kw_only=True)
class ArticlePlan:
    """What a run wants to change in the vault; nothing is written yet."""

    patched: tuple[Patched, ...]
    """Articles that are new or change, sorted by path. Those that stay as they are are absent."""
    talk: tuple[TalkPage, ...]
    """Talk pages that are new or change, sorted by path."""
    settled: tuple[Settled, ...]
    """Facts that the ledger must know from now on, in the order in which they came."""
    refusals: tuple[Refusal, ...]
    """What was not taken from the model, or could not be written; all of it is in `talk`."""
    known: tuple[str, ...]
    """Ids of facts that were left out because the ledger knows them."""
