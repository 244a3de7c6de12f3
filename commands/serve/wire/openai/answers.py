"""What the OpenAI protocol's answers hold, whole and in chunks, as they stand on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from core.engine.events import FinishReason, Lane

ChatFinishReason = FinishReason | Literal["function_call"]


class PromptTokensDetails(Struct, kw_only=True):
    """Where prompt tokens came from."""

    cached_tokens: int


class CompletionTokensDetails(Struct, kw_only=True):
    """What generated tokens were for."""

    reasoning_tokens: int


class Usage(Struct, kw_only=True):
    """What an answer took; each prompt counts once, however many choices it has.

    `repairs` lists the kinds of repair that the markup of tool calls needed, if it needed some.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET
    lane: Lane
    repairs: list[str] | UnsetType = UNSET


class TokenLogprob(Struct, kw_only=True):
    """A token with its log-probability; `token` has U+FFFD for parts of characters."""

    id: int
    token: str
    logprob: float
    bytes: list[int]


class PositionLogprobs(TokenLogprob, kw_only=True):
    """One generated token, and the likeliest ones of its position, descending."""

    top_logprobs: list[TokenLogprob]


class Logprobs(Struct, kw_only=True):
    """One entry for each generated token."""

    content: list[PositionLogprobs]
    refusal: None = None


class TextLogprobs(Struct, kw_only=True):
    """`content` as in a chat or, where `logprobs` is an integer, the other four."""

    content: list[PositionLogprobs] | UnsetType = UNSET
    tokens: list[str] | UnsetType = UNSET
    token_logprobs: list[float] | UnsetType = UNSET
    top_logprobs: list[dict[str, float]] | UnsetType = UNSET
    text_offset: Annotated[
        list[int] | UnsetType, Meta(description="characters of `text` before each token")
    ] = UNSET


class Called(Struct, kw_only=True):
    """A function that the answer calls."""

    name: str
    arguments: Annotated[
        str, Meta(description="a JSON object, or what the model wrote instead of one")
    ]


class ToolCall(Struct, kw_only=True):
    """A call in an answer."""

    id: str
    type: Literal["function"] = "function"
    function: Called


class AnswerMessage(Struct, kw_only=True):
    """The answer of a chat; `content` is null when it consists of calls only."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET
    function_call: Annotated[
        Called | UnsetType, Meta(description="in place of tool_calls, for requests with functions")
    ] = UNSET


class ChatChoice(Struct, kw_only=True):
    """One of the answers."""

    index: int
    message: AnswerMessage
    logprobs: Logprobs | None = None
    finish_reason: ChatFinishReason


class ChatCompletion(Struct, kw_only=True):
    """A whole chat answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class CalledDelta(Struct, kw_only=True):
    """The function's name, once, and more of its arguments."""

    name: str | UnsetType = UNSET
    arguments: str


class ToolCallDelta(Struct, kw_only=True):
    """The beginning of a call, with `id`, `type` and name, or more of its arguments."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: CalledDelta


class Delta(Struct, kw_only=True):
    """What a chunk adds."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET
    function_call: CalledDelta | UnsetType = UNSET


class ChunkChoice(Struct, kw_only=True):
    """A chunk of one of the answers."""

    index: int
    delta: Delta
    logprobs: Annotated[
        Logprobs | UnsetType, Meta(description="of the tokens since the chunk before")
    ] = UNSET
    finish_reason: ChatFinishReason | None = None


class ChatChunk(Struct, kw_only=True):
    """One event of a streamed chat answer; `usage` comes with the last."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType = UNSET


class TextChoice(Struct, kw_only=True):
    """A continuation, or the next piece of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None = None
    finish_reason: FinishReason | None = None


class TextCompletion(Struct, kw_only=True):
    """Whole continuations, or one event of streamed ones; `usage` comes with the last."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage | UnsetType = UNSET
