"""The commit of a run: its id, its branch, the files it changes and its message. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from core.memory.ledger import LEDGER, appended, entry_of
from core.memory.writer import Change
from core.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from core.memory.stages.types import ArticlePlan, Patched, TalkPage
    from core.memory.store import ConversationHead


def review_branch(run: str) -> str:
    """Return the name of the branch on which a run waits for its review."""
    return f"mlxbun/{run}"


def run_id(began: datetime, heads: Sequence[ConversationHead]) -> str:
    """Return `YYYYMMDD-HHMMSS-xxxx`; the same run has the same id, which keeps tests simple."""
    parts = [began.isoformat(), *(head.digest for head in heads)]
    end = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:4]
    return f"{began:%Y%m%d-%H%M%S}-{end}"


def changes_of(plan: ArticlePlan, text: str, digest: str | None, *, run: str) -> list[Change]:
    """Return the changes to files that a plan makes.

    Args:
        plan: what the run wrote.
        text: the ledger as it is; empty: there is none.
        digest: SHA-256 of its bytes; None: there is none.
        run: the run's id.
    """
    pages: tuple[Patched | TalkPage, ...] = (*plan.patched, *plan.talk)
    changes = [Change(path=page.path, before=page.before, after=page.text) for page in pages]
    entries = [entry_of(settled, run=run) for settled in plan.settled]
    if entries:
        changes.append(Change(path=LEDGER, before=digest, after=appended(text, entries)))
    return changes


def message_of(plan: ArticlePlan, *, conversations: int, model: str) -> str:
    """Return the commit message of a run."""
    names = [patched.article for patched in plan.patched]
    shown = "\n".join(f"- {name}" for name in names[:50])
    more = f"\n- and {len(names) - 50} more" if len(names) > 50 else ""
    subject = (
        f"Synthesize {counted(conversations, 'conversation')} into {counted(len(names), 'article')}"
    )
    return f"{subject}\n\nModel: {model}\n\n{shown}{more}\n"
