"""Runs parsers and folds their events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.engine.events import CallEnd, ReasoningDelta, TextDelta
from core.engine.parsing import AnswerParser, Found
from core.engine.request import Tool, ToolUse
from core.engine.tools.choose import load_family

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "metric": {"type": "boolean"},
    },
    "required": ["city"],
}
EDIT = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "text": {"type": "string"},
        "edits": {"type": "array"},
    },
    "required": ["path"],
}
TOOLS = ToolUse(
    tools=(
        Tool(name="get_weather", parameters=WEATHER),
        Tool(name="edit", parameters=EDIT),
        Tool(name="ping"),
    )
)
FAMILIES = (
    "deepseek",
    "deepseek_dsml",
    "deepseek_v3",
    "deepseek_v4",
    "function_gemma",
    "gemma",
    "glm",
    "harmony",
    "hermes",
    "kimi",
    "llama",
    "longcat",
    "minicpm",
    "minimax",
    "mistral",
    "mistral_args",
    "muse_spark",
    "pythonic",
    "qwen",
)


@dataclass
class Folded:
    """An answer, whole."""

    content: str = ""
    reasoning: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    repairs: set[str] = field(default_factory=set)
    complete: list[bool] = field(default_factory=list)
    """For each call whether it ended by itself."""
    cut: bool = False
    """Whether the answer ended within a call, or within what may have become one."""

    def add(self, piece: Found) -> None:
        if isinstance(piece, CallEnd):
            self.repairs |= set(piece.repairs)
            self.cut = not piece.complete
            if len(self.complete) < len(self.names):
                self.complete.append(piece.complete)
            return
        if isinstance(piece, TextDelta | ReasoningDelta):
            assert piece.text
            kind = "content" if isinstance(piece, TextDelta) else "reasoning"
            setattr(self, kind, getattr(self, kind) + piece.text)
        else:
            kind = f"call {piece.index}"
            if piece.name is None:
                assert piece.id is None
                assert piece.arguments
                assert piece.index == len(self.names) - 1
            else:
                assert piece.index == len(self.names)
                assert piece.id is not None
                self.names.append(piece.name)
                self.ids.append(piece.id)
                self.arguments.append("")
            self.arguments[-1] += piece.arguments
        if self.order[-1:] != [kind]:
            self.order.append(kind)


def fold(pieces: Iterable[Found]) -> Folded:
    folded = Folded()
    for piece in pieces:
        folded.add(piece)
    return folded


def parser(family: str, tools: ToolUse = TOOLS) -> AnswerParser:
    numbers = itertools.count()
    return load_family(family).make_parser(tools, lambda: f"call_{next(numbers):x}")


def events(
    family: str, parts: Sequence[str], tools: ToolUse = TOOLS, *, cut: bool = False
) -> list[Found]:
    reader = parser(family, tools)
    return [*(piece for part in parts for piece in reader.push(part)), *reader.flush(cut=cut)]


def parse(
    family: str, parts: str | Sequence[str], tools: ToolUse = TOOLS, *, cut: bool = False
) -> Folded:
    """Return the whole answer; `cut`: the limit of tokens ended it, not the model."""
    return fold(events(family, [parts] if isinstance(parts, str) else parts, tools, cut=cut))


def is_json(text: str) -> bool:
    """Return whether a JSON parser takes a text."""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def tool(parameters: Any, name: str = "f") -> ToolUse:
    """One tool with these parameters."""
    schema = {"type": "object", "properties": parameters}
    return ToolUse(tools=(Tool(name=name, parameters=schema),))
