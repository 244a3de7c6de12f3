"""The conversation under way, and its file as long as that can be written."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from core.sessions.conversation import Conversation, apply, replay
from core.sessions.store import read_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.sessions.store import SessionFile, SessionStore, SessionWriter


class Diary:
    """Everything that changes the conversation goes through `add`, and so into the file.

    The file is made with the first message: a chat in which nothing was said leaves none.

    Attributes:
        conversation: what has been said so far.
    """

    def __init__(
        self, *, store: SessionStore | None, cwd: str, on_trouble: Callable[[str], object]
    ) -> None:
        """Begin an empty conversation.

        Args:
            store: where to keep it; None: nowhere.
            cwd: the folder to tell in the file.
            on_trouble: hears, once, that it is no longer kept.
        """
        self.conversation = Conversation()
        self._store = store
        self._cwd = cwd
        self._on_trouble = on_trouble
        self._writer: SessionWriter | None = None
        self._early: list[Mapping[str, Any]] = []

    @property
    def name(self) -> str | None:
        """The name under which the conversation is kept, or None."""
        return self._writer.name if self._writer else None

    def resume(self, file: SessionFile) -> None:
        """Go on with a conversation.

        Raises:
            UsageProblem: it is open in another chat.
            StoreCorrupt: it cannot be read or written.
        """
        if self._store is not None:
            self._writer = self._store.open(file)
        self.conversation = replay(read_entries(file.path))

    def add(self, entry: Mapping[str, Any]) -> None:
        """Change the conversation by an entry and keep it."""
        self.conversation = apply(self.conversation, entry)
        try:
            self._keep(entry)
        except OSError as problem:
            self.close()
            self._store = None
            self._on_trouble(
                f"From here on this conversation is not saved: {problem.strerror}. "
                "/save writes it to another place."
            )

    def close(self) -> None:
        """Let go of the file."""
        if self._writer:
            self._writer.close()
            self._writer = None

    def _keep(self, entry: Mapping[str, Any]) -> None:
        if self._writer is not None:
            self._writer.append(entry)
        elif self._store is not None:
            self._early.append(entry)
            if entry["type"] == "message":
                self._begin(self._store, first=entry["message"]["content"])

    def _begin(self, store: SessionStore, *, first: str) -> None:
        header = {"cwd": self._cwd, "model": self.conversation.model}
        self._writer = store.create(header, first=first, now=datetime.now().astimezone())
        for entry in self._early:
            if entry["type"] != "model":  # the header tells it
                self._writer.append(entry)
        self._early = []
