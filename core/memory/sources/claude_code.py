"""Logs of Claude Code: `~/.claude/projects/PROJECT/SESSION.jsonl`.

A line is a message or a note of the program; lines form a tree by `parentUuid`, of which the branch
that ends in the last message is read: what the user rewound is left out. So are side chains (what
agents say to each other) and summaries. A session that is resumed may be copied into another file;
`RawConversation.unique_turns` says that turns are recognised by their ids. Calls and results of
tools, and what the program put into the user's messages, are context.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from core.memory.sources.claude import texts
from core.memory.sources.dates import from_iso
from core.memory.sources.lines import read_objects
from core.memory.sources.raw import RawConversation, RawTurn, dicts, string
from core.memory.sources.tags import split_blocks
from core.memory.sources.trees import branch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.memory.sources.raw import ReadLog

_FOREIGN = (
    "system-reminder",
    "command-name",
    "command-message",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "task-notification",
    "teammate-message",
    "user-prompt-submit-hook",
)
"""Blocks in a user's message that the user has not written."""
_OWN = ("command-args", "user-memory-input")
"""Blocks in a user's message that the user has written."""
_INTERRUPTED = "[Request interrupted by user"


def read_claude_code(path: Path, log: ReadLog) -> Iterator[RawConversation]:
    """Yield the conversation in a log, if it holds one.

    Raises:
        OSError: the file cannot be read.
    """
    parents: dict[str, str | None] = {}
    turns: dict[str, list[RawTurn]] = {}
    key, title, before, last = path.stem, "", None, ""
    for number, line in read_objects(path, log):
        title = string(line.get("customTitle")) or string(line.get("aiTitle")) or title
        if line.get("isSidechain") is True:
            continue
        name = string(line.get("uuid"))
        if not name and line.get("type") not in ("user", "assistant"):
            continue
        name = name or f"m{number}"
        if name in parents:
            continue  # a copy
        # A parent that is not in the file (a resumed session, a compacted one) is the line before.
        parent = string(line.get("parentUuid")) or string(line.get("logicalParentUuid"))
        parents[name] = parent if parent in parents else before
        before = name
        if found := _turns(name, line):
            turns[name], last = found, name
    said = tuple(turn for name in branch(last, parents) for turn in turns.get(name, ()))
    if said:
        first = next((turn.text for turn in said if turn.role == "user"), "")
        yield RawConversation(
            kind="claude-code", key=key, title=title or first, turns=said, unique_turns=True
        )


def _turns(name: str, line: dict[str, Any]) -> list[RawTurn]:
    """Return what a line says: a message, and what a tool or the program adds to it."""
    kind, message = line.get("type"), line.get("message")
    if kind not in ("user", "assistant") or not isinstance(message, dict):
        return []
    if line.get("isCompactSummary") is True or line.get("isApiErrorMessage") is True:
        return []
    own, context = _contents(message.get("content"))
    if kind == "user":
        # `isMeta`: the program speaks, for example to say what a skill is about.
        own, foreign = ("", own) if line.get("isMeta") is True else _user_text(own)
        context = "\n".join(filter(None, (context, foreign)))
    at = from_iso(line.get("timestamp"))
    turns = [RawTurn(id=name, role=kind, text=own, at=at)] if own.strip() else []
    if context.strip():
        turns.append(RawTurn(id=f"{name}.tools", role="tool", text=context, at=at))
    return turns


def _user_text(text: str) -> tuple[str, str]:
    """Return what a user's message says, and what the program has put into it."""
    own, foreign = split_blocks(text, _FOREIGN)
    rest, written = split_blocks(own, _OWN)
    own = "\n".join(filter(None, (rest, written)))
    return ("", foreign) if own.strip().startswith(_INTERRUPTED) else (own, foreign)


def _contents(content: Any) -> tuple[str, str]:
    """Return the text of a message's content, and that of tool calls and results in it."""
    if isinstance(content, str):
        return content, ""
    own: list[str] = []
    tools: list[str] = []
    for block in dicts(content):
        match block:
            case {"type": "text", "text": str(text)}:
                own.append(text)
            case {"type": "tool_use", "name": str(name)}:
                tools.append(f"{name} {json.dumps(block.get('input'), ensure_ascii=False)}")
            case {"type": "tool_result"}:
                tools.append(texts(block.get("content")))
            case _:
                pass  # thinking, pictures, documents
    return "\n".join(own), "\n".join(filter(None, tools))
