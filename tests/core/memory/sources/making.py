"""Exports as ChatGPT and Claude write them, for tests."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any


def chatgpt(
    *said: tuple[str, str], key: str = "c1", branches: dict[int, str] | None = None
) -> dict[str, Any]:
    """Return a conversation; `branches` adds an abandoned twin of a message, by its number."""
    mapping: dict[str, Any] = {"root": {"id": "root", "parent": None, "message": None}}
    parent = "root"
    for number, (role, text) in enumerate(said):
        name = f"{key}-{number}"
        mapping[name] = _node(name, parent, role, text, 1_700_000_000 + 60 * number)
        if branches and number in branches:
            twin = f"{name}-old"
            mapping[twin] = _node(twin, parent, role, branches[number], 1_700_000_000)
        parent = name
    return {
        "title": f"Title of {key}",
        "create_time": 1_700_000_000.5,
        "mapping": mapping,
        "current_node": parent,
        "conversation_id": key,
        "id": key,
    }


def _node(name: str, parent: str, role: str, text: str, at: float) -> dict[str, Any]:
    return {
        "id": name,
        "parent": parent,
        "children": [],
        "message": message(role, text, name=name, at=at),
    }


def message(role: str, text: str, *, name: str, at: float | None) -> dict[str, Any]:
    return {
        "id": name,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": at,
        "content": {"content_type": "text", "parts": [text]},
        "status": "finished_successfully",
        "weight": 1.0,
        "metadata": {},
        "recipient": "all",
    }


def claude(*said: tuple[str, str], key: str = "k1") -> dict[str, Any]:
    """Return a conversation whose messages name their parents."""
    messages = [
        {
            "uuid": f"{key}-{number}",
            "text": text,
            "content": [{"type": "text", "text": text}],
            "sender": sender,
            "created_at": f"2026-01-02T10:0{number}:00.000000Z",
            "parent_message_uuid": f"{key}-{number - 1}" if number else ROOT,
            "attachments": [],
            "files": [],
        }
        for number, (sender, text) in enumerate(said)
    ]
    return {
        "uuid": key,
        "name": f"Name of {key}",
        "created_at": "2026-01-02T10:00:00.000000Z",
        "updated_at": "2026-01-02T11:00:00.000000Z",
        "account": {"uuid": "a"},
        "chat_messages": messages,
    }


ROOT = "00000000-0000-4000-8000-000000000000"


def write_json(path: Path, conversations: Any) -> Path:
    path.write_text(json.dumps(conversations), encoding="utf-8")
    return path


def write_zip(path: Path, conversations: Any, *, name: str = "conversations.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr(name, json.dumps(conversations))
    return path
