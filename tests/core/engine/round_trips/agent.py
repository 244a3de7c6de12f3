"""A conversation of an agent, and what a model's side of it is.

A model writes what its template shows of the answers that it was trained on. So what it writes is
taken from the template: the message that is meant, rendered as the last one, up to its end mark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tokenizers import Tokenizer as Backend

from core.engine.events import Event, Finished, Position
from core.engine.parsing import Piece
from core.engine.preparing import Preparer
from core.engine.prompt import PromptBuilder
from core.engine.request import ChatPrompt, GenerationRequest, Tool, ToolUse
from core.engine.tokenizer import Tokenizer
from core.engine.tokenizer_card import TokenizerCard
from tests.core.engine.round_trips.cases import Case
from tests.core.engine.tools.folding import EDIT, WEATHER, Folded
from tests.tiny import byte_tokenizer

Message = dict[str, Any]
Call = tuple[str, dict[str, Any]]

TOOLS = (
    Tool(name="get_weather", parameters=WEATHER),
    Tool(name="edit", parameters=EDIT),
    Tool(name="ping", parameters={"type": "object", "properties": {}}),
)
TOLD = tuple(
    {
        "type": "function",
        "function": {"name": tool.name, "description": "A tool.", "parameters": tool.parameters},
    }
    for tool in TOOLS
)
SYSTEM: Message = {"role": "system", "content": "Be brief."}


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One answer of the model, and what comes before it."""

    asked: str | None = None
    """What the user says; None: the results of the calls before are enough."""
    thought: str = "Let me see."
    said: str = ""
    calls: tuple[Call, ...] = ()


TURNS = (
    Turn(
        asked="How is the weather?",
        calls=(("get_weather", {"city": "Paris", "days": 3, "metric": True}),),
    ),
    Turn(
        calls=(
            ("edit", {"path": "ü/a b.py", "text": 'if a < "b" & c:\n\treturn {"x": [1]}\n'}),
            ("get_weather", {"city": "São\u00a0Paulo"}),
        ),
    ),
    Turn(said="Sunny, {and} warm."),
    Turn(asked="Is it up?", said="I look.", calls=(("ping", {}),)),
    Turn(said="It is."),
)


class Model:
    """A tokenizer with a family's special tokens and template, and all that reads and writes it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        backend: Backend = byte_tokenizer(case.tokens)
        first = case.special[0] if case.special else None
        names = {"eos_token": case.ends[0], **({"bos_token": _bos(case) or first} if first else {})}
        card = TokenizerCard(
            backend=backend.to_str(),
            templates={"default": case.template} if case.template else {},
            special_tokens={name: str(token) for name, token in names.items()},
            eos_ids=[256 + n for n in range(len(case.ends))],
            longest_token=40,
            thinking=case.reasons,
        )
        self.tokenizer = Tokenizer.from_card(card)
        if case.code:
            module = import_module(f"mlx_lm.chat_templates.{case.code}")
            self.tokenizer._render = module.apply_chat_template
        prompts = PromptBuilder(
            self.tokenizer, context=100_000, window=100_000, find_boundaries=True
        )
        self.preparer = Preparer(
            self.tokenizer,
            prompts,
            vocabulary=256 + len(case.tokens),
            thinking=case.reasons or None,
            grammar=True,
        )

    def request(self, history: Sequence[Message], **changes: Any) -> GenerationRequest:
        """Return the request of an answer to a conversation."""
        prompt = ChatPrompt(messages=tuple(history), tools=TOLD)
        return GenerationRequest(prompt=prompt, tools=ToolUse(tools=TOOLS), **changes)

    def prompt(self, history: Sequence[Message]) -> list[int]:
        """Return the tokens of a conversation that the model is to go on with."""
        return self.preparer.prepare(self.request(history)).prompt.tokens

    def shown(self, history: Sequence[Message]) -> list[int]:
        """Return the tokens of a conversation that ends with an answer."""
        settled = self.preparer._settle(self.request(history))
        assert isinstance(settled, ChatPrompt)
        text = self.tokenizer.render(settled, generation_prompt=False)
        return self.tokenizer.encode(text, special=False)

    def writes(self, history: Sequence[Message], message: Message) -> list[int]:
        """Return the tokens with which the model says a message, its end included."""
        asked, shown = self.prompt(history), self.shown([*history, message])
        answer = self.answer_in(shown, history)
        if not starts_with(shown, asked) and (thought := message.get("reasoning_content")):
            closes = self.tokenizer.encode("</think>", special=False)
            if self.case.special and starts_with(answer, closes):
                # The prompt opens the channel, and the history closes it without showing it.
                answer = [*self.tokenizer.encode(thought, special=False), *answer]
        ends = [n for n, token in enumerate(answer) if token in self.tokenizer.eos_ids]
        end = self.case.ends[-1 if message.get("tool_calls") else 0]
        stop = self.tokenizer.token_id(end)
        assert stop is not None
        return [*answer[: ends[0] if ends else len(answer)], stop]

    def answer_in(self, shown: Sequence[int], history: Sequence[Message]) -> list[int]:
        """Return the tokens of the last answer that a rendered conversation ends with."""
        asked = self.prompt(history)
        if starts_with(shown, asked):
            return list(shown[len(asked) :])
        # What came before is shown in another way now: look for where the assistant begins.
        begins = asked[common(asked, self.shown(history)) :]
        other = {"role": "assistant", "content": "~", "reasoning_content": "~"}
        end = common(shown, self.shown([*history, other]))
        found = [n for n in range(end + 1) if starts_with(shown[n:end], begins)]
        at = found[-1] + len(begins) if begins and found else common(asked, shown)
        return list(shown[at:])

    def reads(self, history: Sequence[Message], tokens: Sequence[int]) -> Folded:
        """Return an answer as its caller gets it."""
        output = self.preparer.prepare(self.request(history)).make_output()
        pieces: list[Piece] = []
        for token in tokens:
            if token in self.tokenizer.eos_ids:
                break
            pieces.extend(output.push(token))
        return folded([*pieces, *output.flush()])


def _bos(case: Case) -> str | None:
    known = ("<｜begin▁of▁sentence｜>",)  # noqa: RUF001
    return next((token for token in known if token in case.special), None)


def folded(pieces: Sequence[Event]) -> Folded:
    """Return an answer, whole."""
    answer = Folded()
    for piece in pieces:
        if not isinstance(piece, Finished | Position):
            answer.add(piece)
    return answer


def intended(turn: Turn, case: Case, number: int) -> Message:
    """Return the message that the model means."""
    message: Message = {"role": "assistant", "content": turn.said if case.says_before else ""}
    if not turn.calls:
        message["content"] = turn.said
    if case.reasons:
        message["reasoning_content"] = turn.thought
    calls = turn.calls if case.parallel else turn.calls[:1]
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}{index}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for index, (name, arguments) in enumerate(calls)
        ]
    return message


def sent_back(answer: Folded) -> Message:
    """Return an answer as a client sends it back, and as the wire hands it on."""
    message: Message = {"role": "assistant", "content": answer.content or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.names:
        message["tool_calls"] = [
            {
                "id": id_,
                "type": "function",
                "function": {"name": name, "arguments": json.loads(arguments)},
            }
            for id_, name, arguments in zip(answer.ids, answer.names, answer.arguments, strict=True)
        ]
    return message


def results(message: Message) -> list[Message]:
    """Return the results of a message's calls."""
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": f"result of {call['id'][-2:]}"}
        for call in message.get("tool_calls", ())
    ]


def calls_of(answer: Folded) -> list[Call]:
    """Return the names and arguments of an answer's calls."""
    return [
        (name, json.loads(arguments))
        for name, arguments in zip(answer.names, answer.arguments, strict=True)
    ]


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the length of what both begin with."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(left), len(right)))


def starts_with(tokens: Sequence[int], beginning: Sequence[int]) -> bool:
    """Return whether tokens begin with others."""
    return list(tokens[: len(beginning)]) == list(beginning)
