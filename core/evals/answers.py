"""How two models answer: where their greedy texts part, and how often their forms are valid.

Answers come from the engine that serves, without a grammar: a form that is enforced says nothing
about a model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.engine.events import Finished, Position, TextDelta, ToolCallDelta
from core.engine.request import (
    ChatPrompt,
    GenerationRequest,
    SamplingParams,
    TextPrompt,
    Thinking,
    Tool,
    ToolUse,
)
from core.engine.tools.schema import kind_of, property_kinds
from core.engine.tools.tolerant import whole
from core.errors import UsageProblem
from core.evals.prompts import CALL_TASKS, JSON_TASKS, QUESTIONS, TOOLS, JsonTask

if TYPE_CHECKING:
    from core.engine.engine import Engine
    from core.engine.generation import Generation

_GREEDY = SamplingParams(
    temperature=0.0,
    repetition_penalty=0.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
    logit_bias=(),
    seed=0,
)
_NO_TEMPLATE = "The model has no chat template: JSON and tool calls were not asked for."
_LONGEST_FORM = 256  # tokens of an answer that is to be JSON or a call


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What one model answered."""

    texts: tuple[tuple[int, ...], ...]
    """Tokens of the greedy answers, one to each of `QUESTIONS`."""
    json_valid: int | None
    """Answers that are a JSON object with the keys wanted, of `JSON_TASKS`; None: not asked."""
    calls_valid: int | None
    """Answers with a complete, valid call of a tool, of `CALL_TASKS`; None: not asked."""
    calls_repaired: int | None
    """Those of them whose markup was repaired; None: not asked."""
    notes: tuple[str, ...] = ()
    """Why something was not asked, one sentence each."""


@dataclass(frozen=True, kw_only=True)
class AnswerComparison:
    """How the answers of two models differ."""

    splits: tuple[int | None, ...]
    """For each question the number of equal tokens before the first difference; None: the same."""
    tokens: int
    """Most tokens of an answer."""
    json_tasks: int
    """Questions whose answer is to be JSON."""
    call_tasks: int
    """Questions that are to be answered by a call."""
    original: FormCounts
    """The original's valid answers."""
    model: FormCounts
    """The other model's."""
    notes: tuple[str, ...]
    """Why something was not asked, one sentence each."""


@dataclass(frozen=True, kw_only=True)
class FormCounts:
    """How many answers had the form wanted; None: the model has no chat template."""

    json_valid: int | None
    """JSON objects with the keys wanted."""
    calls_valid: int | None
    """Complete calls that fit a tool's schema."""
    calls_repaired: int | None
    """Those of them whose markup was repaired."""


def ask(engine: Engine, *, tokens: int, forms: bool = True) -> Answers:
    """Return a model's answers.

    Args:
        engine: of the model.
        tokens: most tokens of a greedy answer.
        forms: whether to ask for JSON and calls as well, where the model chats.
    """
    chats = engine.info.has_chat_template
    notes = [] if chats or not forms else [_NO_TEMPLATE]
    texts = _all(engine, [_question(text, tokens, chats=chats) for text in QUESTIONS])
    asked = [_json_request(task) for task in JSON_TASKS] if forms and chats else None
    called = [_call_request(task.question) for task in CALL_TASKS] if forms and chats else None
    objects, calls = _attempt(engine, asked, notes), _attempt(engine, called, notes)
    fitting = None if calls is None else [found for found in calls if found.is_valid_call]
    return Answers(
        texts=tuple(found.tokens for found in texts),
        json_valid=None if objects is None else _count_objects(objects),
        calls_valid=None if fitting is None else len(fitting),
        calls_repaired=None if fitting is None else sum(found.repaired for found in fitting),
        notes=tuple(notes),
    )


def compare_answers(original: Answers, model: Answers, *, tokens: int) -> AnswerComparison:
    """Return how two models' answers differ.

    Args:
        original: the first model's.
        model: the second model's.
        tokens: most tokens of a greedy answer.
    """
    pairs = zip(original.texts, model.texts, strict=True)
    return AnswerComparison(
        splits=tuple(first_difference(first, second) for first, second in pairs),
        tokens=tokens,
        json_tasks=len(JSON_TASKS),
        call_tasks=len(CALL_TASKS),
        original=_counts(original),
        model=_counts(model),
        notes=tuple(dict.fromkeys((*original.notes, *model.notes))),
    )


def first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    """Return the first position at which two sequences differ; None: they are equal."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return position
    return None if len(first) == len(second) else min(len(first), len(second))


def is_object(text: str, task: JsonTask) -> bool:
    """Return whether an answer is a JSON object with the keys wanted, and nothing else.

    A code fence around it is left out; our reader of JSON has to find nothing to repair.
    """
    repairs: set[str] = set()
    found = whole(_unfenced(text), repairs)
    if found is None or repairs:
        return False
    value = json.loads(found)
    return isinstance(value, dict) and all(key in value for key in task.keys)


def _unfenced(text: str) -> str:
    """Return a text without the code fence around it, if there is one."""
    text = text.strip()
    first, newline, rest = text.partition("\n")
    if newline and first.strip() in ("```", "```json") and rest.endswith("```"):
        return rest.removesuffix("```").strip()
    return text


def fits_tool(name: str, arguments: str) -> bool:
    """Return whether a call names one of `TOOLS`, with the arguments that it takes."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    if name not in schemas:
        return False
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    schema = schemas[name]
    if not isinstance(values, dict) or any(key not in values for key in schema["required"]):
        return False
    return all(
        key in schema["properties"] and _is_kind(value, property_kinds(key, schema))
        for key, value in values.items()
    )


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """One answer, read to its end."""

    tokens: tuple[int, ...]
    text: str
    calls: tuple[tuple[str, str], ...]
    reason: str
    repaired: bool

    @property
    def is_valid_call(self) -> bool:
        return (
            self.reason == "tool_calls"
            and bool(self.calls)
            and all(fits_tool(name, arguments) for name, arguments in self.calls)
        )


def _all(engine: Engine, requests: Sequence[GenerationRequest]) -> list[_Answer]:
    """Return the answers to requests that run together."""
    return [_read(generation) for generation in [engine.submit(each) for each in requests]]


def _attempt(
    engine: Engine, requests: Sequence[GenerationRequest] | None, notes: list[str]
) -> list[_Answer] | None:
    """Return the answers; None: the model cannot be asked so, and the notes say why."""
    try:
        return None if requests is None else _all(engine, requests)
    except UsageProblem as refusal:  # a short context, or a template that knows no tools
        notes.append(refusal.message)
        return None


def _count_objects(answers: Sequence[_Answer]) -> int:
    pairs = zip(answers, JSON_TASKS, strict=True)
    return sum(is_object(found.text, task) for found, task in pairs)


def _read(generation: Generation) -> _Answer:
    tokens: list[int] = []
    text: list[str] = []
    calls: dict[int, tuple[str, str]] = {}
    reason, repaired = "", False
    for event in generation:
        if isinstance(event, Position):
            tokens.append(event.chosen.token)
        elif isinstance(event, TextDelta):
            text.append(event.text)
        elif isinstance(event, ToolCallDelta):
            name, arguments = calls.get(event.index, ("", ""))
            calls[event.index] = (event.name or name, arguments + event.arguments)
        elif isinstance(event, Finished):
            reason, repaired = event.reason, bool(event.usage.repairs)
    return _Answer(
        tokens=tuple(tokens),
        text="".join(text),
        calls=tuple(calls.values()),
        reason=reason,
        repaired=repaired,
    )


def _question(text: str, tokens: int, *, chats: bool) -> GenerationRequest:
    prompt = _chat(text) if chats else TextPrompt(text=text)
    return GenerationRequest(prompt=prompt, sampling=_GREEDY, max_tokens=tokens, logprobs=0)


def _json_request(task: JsonTask) -> GenerationRequest:
    return GenerationRequest(
        prompt=_chat(task.question),
        sampling=_GREEDY,
        max_tokens=_LONGEST_FORM,
        thinking=Thinking(enabled=False),
    )


def _call_request(question: str) -> GenerationRequest:
    functions = [tool["function"] for tool in TOOLS]
    tools = tuple(Tool(name=each["name"], parameters=each["parameters"]) for each in functions)
    return GenerationRequest(
        prompt=_chat(question, tools=TOOLS),
        sampling=_GREEDY,
        max_tokens=_LONGEST_FORM,
        tools=ToolUse(tools=tools),
        thinking=Thinking(enabled=False),
    )


def _chat(question: str, *, tools: Sequence[Any] = ()) -> ChatPrompt:
    return ChatPrompt(messages=({"role": "user", "content": question},), tools=tuple(tools))


def _is_kind(value: Any, kinds: frozenset[str]) -> bool:
    kind = kind_of(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _counts(answers: Answers) -> FormCounts:
    return FormCounts(
        json_valid=answers.json_valid,
        calls_valid=answers.calls_valid,
        calls_repaired=answers.calls_repaired,
    )
