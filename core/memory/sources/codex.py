"""Logs of Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`.

A line has a `type` and a `payload`; older ones are the payload. Read are `response_item` lines with
a message or a tool call; `event_msg` lines repeat them and are left out, but for one that takes
turns back. Environment, instructions and the like, which the program sends in the user's name, are
context. Sessions of sub-agents are left out: the user has not spoken there. A session that was
forked begins with a copy of the other one, so ids are made of what was said since the oldest.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from core.memory.sources.dates import from_iso
from core.memory.sources.lines import read_objects
from core.memory.sources.raw import RawConversation, RawTurn, dicts, string
from core.memory.sources.tags import split_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from core.memory.sources.raw import ReadLog
    from core.memory.turns import Role

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_FOREIGN = (
    "environment_context",
    "user_instructions",
    "INSTRUCTIONS",
    "turn_aborted",
    "skill",
    "user_shell_command",
    "subagent_notification",
    "permissions instructions",
    "collaboration_mode",
    "personality_spec",
    "system-reminder",
)
_AGENTS = "# AGENTS.md instructions"
_IDE = "# Context from my IDE setup:"
_REQUEST = "## My request for Codex:"
_ID_IN_NAME = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


class _Said:
    """The turns of a session while it is read."""

    def __init__(self) -> None:
        self.turns: list[tuple[Role, str, datetime | None]] = []

    def add(self, role: Role, text: str, at: datetime | None) -> None:
        turn = (role, text, at)
        if text.strip() and (not self.turns or self.turns[-1] != turn):
            self.turns.append(turn)

    def take_back(self, count: object) -> None:
        """Drop the last messages of the user with all that follows them."""
        left = count if isinstance(count, int) else 0
        while left > 0 and self.turns:
            left -= self.turns.pop()[0] == "user"

    def with_ids(self, seed: str) -> tuple[RawTurn, ...]:
        """Return the turns, each with an id made of all that was said up to it."""
        chain = hashlib.sha256(seed.encode("utf-8", "surrogatepass"))
        turns = []
        for role, text, at in self.turns:
            chain.update(f"\0{role}\0{text}".encode("utf-8", "surrogatepass"))
            turns.append(RawTurn(id=chain.hexdigest()[:24], role=role, text=text, at=at))
        return tuple(turns)


def read_codex(path: Path, log: ReadLog) -> Iterator[RawConversation]:
    """Yield the conversation in a log, if it holds one.

    Raises:
        OSError: the file cannot be read.
    """
    named = _ID_IN_NAME.search(path.stem)
    key, oldest, began = "", "", None
    said = _Said()
    for _, line in read_objects(path, log):
        kind, payload = line.get("type"), line.get("payload")
        at = from_iso(line.get("timestamp"))
        if kind == "session_meta" and isinstance(payload, dict):
            if not key and _is_agent(payload):
                log.skip("a session of a Codex sub-agent")
                return
            key = key or string(payload.get("id"))
            # The session that this one was forked from follows it, and so on.
            oldest = string(payload.get("forked_from_id")) or string(payload.get("id")) or oldest
            began = began or from_iso(payload.get("timestamp")) or at
        elif kind == "event_msg" and isinstance(payload, dict):
            if payload.get("type") == "thread_rolled_back":
                said.take_back(payload.get("num_turns"))
        elif kind == "response_item" and isinstance(payload, dict):
            _read_item(payload, at, said)
        elif payload is None and kind is not None:
            _read_item(line, at, said)
        elif payload is None:  # the first line of an older log
            key = key or string(line.get("id"))
            began = began or at
    key = key or (named[0] if named else path.stem)
    if turns := said.with_ids(oldest or key):
        title = next((turn.text for turn in turns if turn.role == "user"), "")
        yield RawConversation(
            kind="codex", key=key, title=title, turns=turns, at=began, unique_turns=True
        )


def _is_agent(payload: dict[str, Any]) -> bool:
    source = payload.get("source")
    return isinstance(source, dict) and "subagent" in source


def _read_item(item: dict[str, Any], at: datetime | None, said: _Said) -> None:
    match item:
        case {"type": "message", "role": str(role), "content": list(content)} if role in _ROLES:
            texts = [string(part.get("text")) for part in dicts(content)]
            if role == "user":
                _read_user(texts, at, said)
            else:
                said.add(_ROLES[role], "\n".join(texts), at)
        case {"type": "function_call" | "custom_tool_call", "name": str(name)}:
            given = string(item.get("arguments")) or string(item.get("input"))
            said.add("tool", f"{name} {given}", at)
        case {"type": "local_shell_call", "action": dict(action)}:
            said.add("tool", f"shell {json.dumps(action, ensure_ascii=False)}", at)
        case {"type": "function_call_output" | "custom_tool_call_output", "output": output}:
            said.add("tool", _output(output), at)
        case _:
            pass


def _read_user(texts: list[str], at: datetime | None, said: _Said) -> None:
    """Take a message of the user; what the program says in the user's name is context."""
    own: list[str] = []
    context: list[str] = []
    for text in texts:
        written, foreign = split_blocks(text, _FOREIGN)
        start = written.lstrip()
        if start.startswith(_AGENTS):
            written, foreign = "", text
        elif start.startswith(_IDE):
            before, _, written = written.partition(_REQUEST)
            foreign = f"{foreign}\n{before}"
        own.append(written.strip())
        context.append(foreign)
    said.add("tool", "\n".join(filter(str.strip, context)), at)
    said.add("user", "\n".join(filter(None, own)), at)


def _output(output: Any) -> str:
    """Return the text of a tool's answer: a text, blocks, or an object with either."""
    if isinstance(output, dict):
        output = output.get("content") or output.get("output")
    if isinstance(output, list):
        return "\n".join(string(part.get("text")) for part in dicts(output))
    return string(output)
