"""From an example to tokens with a loss mask, by the model's own tokenizer and chat template.

A conversation is tokenized whole, as the model will read it; where an answer begins and ends is
where the tokens of the shorter renderings part from those of the whole. Pure Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.engine.request import ChatPrompt
from core.engine.retelling import Retelling
from core.errors import BadRequest
from core.rows.examples import (
    Completion,
    Conversation,
    Example,
    Message,
    PlainText,
    Preference,
    RowProblem,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """One sequence."""

    tokens: tuple[int, ...]
    """Its token ids, two at least."""
    response: bytes
    """For each token 1 where it belongs to a response, else 0."""
    cut: bool = False
    """Whether it was longer than `max_seq_length`."""
    muted: bytes = b""
    """For each token 1 where a message is marked as not learned, else 0; empty: none is."""
    idle_marks: bool = False
    """Whether a message is marked as learned that is not the assistant's."""

    @property
    def everything(self) -> bytes:
        """The mask that counts every token that has one before it, but for muted messages."""
        if not self.muted:
            return b"\0" + b"\1" * (len(self.tokens) - 1)
        return b"\0" + bytes(1 - muted for muted in self.muted[1:])


@dataclass(frozen=True, kw_only=True)
class EncodedPair:
    """Two sequences with one prompt."""

    chosen: Encoded
    """The better one."""
    rejected: Encoded
    """The other one."""


Item = Encoded | EncodedPair
Turn = Mapping[str, Any]
"""A message or a tool."""


class Encoder:
    """Turns examples into tokens."""

    def __init__(
        self, tokenizer: Tokenizer, *, max_seq_length: int, response_only: bool = True
    ) -> None:
        """Take the model's tokenizer.

        Args:
            tokenizer: with its chat template, if it has one.
            max_seq_length: tokens of a sequence at most; what is longer is cut at its end.
            response_only: whether the loss counts responses alone.
        """
        self._response_only = response_only
        self._tokenizer = tokenizer
        self._retelling = Retelling(tokenizer)
        self._most = max_seq_length
        self._end = min(tokenizer.eos_ids, default=None)

    def encode(self, example: Example) -> Item:
        """Return an example's tokens.

        Raises:
            RowProblem: the template refuses it, or no token of a response is left.
        """
        if isinstance(example, Preference):
            chosen = self._answered(example, example.chosen)
            rejected = self._answered(example, example.rejected)
            return EncodedPair(chosen=chosen, rejected=rejected)
        if isinstance(example, Conversation):
            return self._conversation(example.messages, example.tools, given=0)
        if isinstance(example, Completion):
            return self._completion(example.prompt, example.completion)
        return self._plain_text(example)

    def _answered(self, pair: Preference, answer: tuple[Message, ...] | str) -> Encoded:
        if isinstance(pair.prompt, str):
            assert isinstance(answer, str)
            return self._completion(pair.prompt, answer)
        assert isinstance(answer, tuple)
        return self._conversation((*pair.prompt, *answer), pair.tools, given=len(pair.prompt))

    def _completion(self, prompt: str, completion: str) -> Encoded:
        """Return a prompt with its completion: as a turn of a chat where there is a template."""
        if self._tokenizer.has_chat_template:
            turns = [
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": completion},
            ]
            return self._conversation(turns, (), given=1)
        tokens = self._text_tokens(prompt + completion)
        start = _common(self._tokenizer.encode(prompt, special=True), tokens) if prompt else 0
        return self._finish(tokens, [(start, len(tokens))])

    def _plain_text(self, example: PlainText) -> Encoded:
        tokens = self._text_tokens(example.text)
        return self._finish(tokens, [(0, len(tokens))])

    def _conversation(
        self, messages: Sequence[Turn], tools: Sequence[Turn], *, given: int
    ) -> Encoded:
        """Return a conversation of which the assistant's turns behind those given are responses.

        It is told as the model will be told when it answers: a template may show no tools.
        """
        marks = [message.get("train") for message in messages]
        idle = any(
            mark and message["role"] != "assistant"
            for mark, message in zip(marks, messages, strict=True)
        )
        messages = [{k: v for k, v in m.items() if k != "train"} for m in messages]
        asked = messages
        first = len(self._retold(messages[:given], tools).messages) if given else 0
        shown = self._retold(messages, tools)
        asked_tools, tools = tools, shown.tools
        messages = shown.messages
        whole = self._rendered(messages, tools)
        tokens = self._tokenizer.encode(whole, special=False)
        turns = [i for i in range(first, len(messages)) if messages[i]["role"] == "assistant"]
        spans = [self._span(messages, tools, turn, whole, tokens) for turn in turns]
        if messages[-1]["role"] == "assistant" and spans[-1] is None:
            raise RowProblem("the chat template writes its last answer in another way than alone")
        known = [span for span in spans if span is not None]
        muted = [
            self._message_span(asked, asked_tools, turn, whole, tokens)
            for turn, mark in enumerate(marks)
            if mark is False
        ]
        if (
            known
            and marks[-1] is not False
            and not any(token in self._tokenizer.eos_ids for token in tokens[known[-1][0] :])
        ):
            tokens.append(self._end_token())
            known[-1] = (known[-1][0], len(tokens))
        places = [span for span in muted if span is not None]
        return self._finish(tokens, known, muted=places, idle_marks=idle)

    def _message_span(
        self,
        messages: Sequence[Turn],
        tools: Sequence[Turn],
        turn: int,
        whole: str,
        tokens: list[int],
    ) -> tuple[int, int] | None:
        """Return where a message that is not learned stands, by the row's own messages.

        None: the template writes it in another way when more follows; it is not learned anyway.

        Raises:
            RowProblem: its place is unknown, and some of it would be learned.
        """
        answers = messages[turn]["role"] == "assistant"
        before = ""
        if turn:
            head = self._retold(messages[:turn], tools)
            before = self._rendered(head.messages, head.tools, generate=answers)
        head = self._retold(messages[: turn + 1], tools)
        after = self._rendered(head.messages, head.tools)
        if whole.startswith(before) and whole.startswith(after):
            start = _common(self._tokenizer.encode(before, special=False), tokens) if before else 0
            last = turn == len(messages) - 1
            end = _common(self._tokenizer.encode(after, special=False), tokens)
            return start, len(tokens) if last else end
        several = len(messages[turn].get("tool_calls") or ()) > 1
        if self._response_only and not several:
            return None
        raise RowProblem(
            f"the chat template writes message {turn + 1} in another way when more follows, so it "
            "cannot be left out (weight 0, or train false)"
        )

    def _span(
        self,
        messages: Sequence[Turn],
        tools: Sequence[Turn],
        turn: int,
        whole: str,
        tokens: list[int],
    ) -> tuple[int, int] | None:
        """Return where an answer stands among the tokens; None: the whole has it otherwise.

        Templates that drop the reasoning of earlier turns render them otherwise; the model never
        sees them so when it answers, and they are not learned.
        """
        before = self._rendered(messages[:turn], tools, generate=True)
        after = self._rendered(messages[: turn + 1], tools)
        if not (whole.startswith(before) and whole.startswith(after) and len(before) < len(after)):
            return None
        start = _common(self._tokenizer.encode(before, special=False), tokens)
        end = _common(self._tokenizer.encode(after, special=False), tokens)
        # What a template writes behind the token that ends an answer, nobody generates.
        ends = [i for i in range(start, end) if tokens[i] in self._tokenizer.eos_ids]
        return start, ends[-1] + 1 if ends else end

    def _retold(self, messages: Sequence[Turn], tools: Sequence[Turn]) -> ChatPrompt:
        prompt = ChatPrompt(messages=tuple(messages), tools=tuple(tools))
        return self._retelling.retell(prompt)

    def _rendered(
        self, messages: Sequence[Turn], tools: Sequence[Turn], *, generate: bool = False
    ) -> str:
        try:
            text = self._tokenizer.render(
                ChatPrompt(messages=tuple(messages), tools=tuple(tools)),
                generation_prompt=generate,
            )
        except BadRequest as problem:
            raise RowProblem(f"{problem.message}") from None
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise RowProblem("it holds half a character")
        return text

    def _text_tokens(self, text: str) -> list[int]:
        tokens = self._tokenizer.encode(text, special=True)
        if not tokens or tokens[-1] not in self._tokenizer.eos_ids:
            tokens = [*tokens, self._end_token()]
        return tokens

    def _end_token(self) -> int:
        if self._end is None:
            raise RowProblem("the tokenizer has no token that ends an answer")
        return self._end

    def _finish(
        self,
        tokens: list[int],
        spans: list[tuple[int, int]],
        *,
        muted: Sequence[tuple[int, int]] = (),
        idle_marks: bool = False,
    ) -> Encoded:
        if unknown := self._tokenizer.unknown(tokens):
            raise RowProblem(f"it has {unknown}")
        mask, silent = bytearray(len(tokens)), bytearray(len(tokens))
        for start, end in spans:
            mask[start:end] = b"\1" * (end - start)
        for start, end in muted:
            mask[start:end] = bytes(end - start)
            silent[start:end] = b"\1" * (end - start)
        mask[:1] = b"\0"  # nothing stands before the first one, from which it could be told
        kept, response = tuple(tokens[: self._most]), bytes(mask[: self._most])
        if not any(response):
            beyond = f"its response lies beyond max_seq_length ({self._most} tokens)"
            raise RowProblem(beyond if any(mask) else "it has no response")
        return Encoded(
            tokens=kept,
            response=response,
            cut=len(tokens) > self._most,
            muted=bytes(silent[: self._most]) if muted else b"",
            idle_marks=idle_marks,
        )


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
