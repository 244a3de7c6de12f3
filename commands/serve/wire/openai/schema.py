"""The OpenAI protocol's objects, as they stand on the wire.

A request field's description reads "what it must be; what it does": the first half is also the
sentence of its error (`decode`), the whole is in the OpenAPI document. Knows nothing of how a
request is answered.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from core.engine.events import FinishReason, Lane

MAX_STOPS = 64
"""Each stop text is looked for after every token, so their number is bounded."""
MAX_STOP_LENGTH = 4096
"""Characters of one stop text; as many are held back from the client while it may still come."""


class TextPart(Struct, kw_only=True):
    """A piece of a message's content. Several are joined."""

    type: Literal["text"]
    text: str


class CalledFunction(Struct, kw_only=True):
    """What an earlier answer called."""

    name: str
    arguments: str = "{}"


class PastToolCall(Struct, kw_only=True):
    """A tool call in an assistant message of the history."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class Message(Struct, kw_only=True):
    """One turn of the conversation. `developer` is read as `system`."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[PastToolCall] | None = None
    tool_call_id: str | None = None


class FunctionSpec(Struct, kw_only=True):
    """A function that the model may call."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(Struct, kw_only=True):
    """A tool that the model may call."""

    type: Literal["function"]
    function: FunctionSpec


class FunctionName(Struct, kw_only=True):
    """A function by its name."""

    name: str


class ToolChoice(Struct, kw_only=True):
    """The tool that the model has to call."""

    type: Literal["function"]
    function: FunctionName


class ResponseFormat(Struct, kw_only=True):
    """The form that an answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class StreamOptions(Struct, kw_only=True):
    """Accepted as it is: usage always comes with the last chunk."""

    include_usage: bool | None = None


class Hlg(Struct, kw_only=True):
    """Tone-curve sampling."""

    enabled: bool | None = None


def _number(low: float, high: float, meaning: str) -> Meta:
    return Meta(ge=low, le=high, description=f"a number from {low:g} to {high:g}; {meaning}")


def _count(low: int, meaning: str) -> Meta:
    return Meta(ge=low, description=f"a whole number of at least {low}; {meaning}")


def _thing(wanted: str, meaning: str) -> Meta:
    return Meta(description=f"{wanted}; {meaning}")


_STOPS = (
    f"a text or a list of at most {MAX_STOPS} texts, none of them empty or longer than "
    f"{MAX_STOP_LENGTH} characters"
)
_WINDOW = _count(0, "how many recent tokens the penalty looks at")


class SamplingFields(Struct, kw_only=True):
    """What chat and text completions have in common. Null means the same as leaving a field out."""

    model: Annotated[str | None, _thing("a text", "the served model answers in any case")] = None
    stream: Annotated[bool | None, _thing("true or false", "send the answer as it grows")] = None
    stream_options: Annotated[
        StreamOptions | None, _thing("an object", "usage always comes with the last chunk")
    ] = None
    max_tokens: Annotated[int, _count(1, "the most tokens to generate")] | None = None
    max_completion_tokens: Annotated[int, _count(1, "wins over max_tokens")] | None = None
    temperature: Annotated[float, _number(0, 100, "0 takes the likeliest token")] | None = None
    top_p: Annotated[float, _number(0, 1, "0 and 1 are off")] | None = None
    top_k: Annotated[int, _count(0, "0 is off")] | None = None
    min_p: Annotated[float, _number(0, 1, "0 is off")] | None = None
    seed: Annotated[
        int | None, _thing("a whole number of 64 bits", "makes the answer reproducible")
    ] = None
    stop: Annotated[str | list[str] | None, _thing(_STOPS, "the answer ends before it")] = None
    n: Annotated[int, _count(1, "only 1 for now")] | None = None
    logprobs: Annotated[bool | None, _thing("true or false", "only false for now")] = None
    top_logprobs: (
        Annotated[
            int, Meta(ge=-1, le=11, description="a whole number from -1 to 11; at most 0 for now")
        ]
        | None
    ) = None
    logit_bias: Annotated[
        dict[str, float] | None, _thing("a dict of int to float", "only empty for now")
    ] = None
    repetition_penalty: Annotated[float, _number(0, 100, "only 1 (off) for now")] | None = None
    repetition_context_size: Annotated[int, _WINDOW] | None = None
    presence_penalty: Annotated[float, _number(-100, 100, "only 0 (off) for now")] | None = None
    presence_context_size: Annotated[int, _WINDOW] | None = None
    frequency_penalty: Annotated[float, _number(-100, 100, "only 0 (off) for now")] | None = None
    frequency_context_size: Annotated[int, _WINDOW] | None = None
    xtc_probability: Annotated[float, _number(0, 1, "only 0 (off) for now")] | None = None
    xtc_threshold: Annotated[float, _number(0, 1, "has no effect while XTC is off")] | None = None
    response_format: Annotated[
        ResponseFormat | None,
        _thing("an object whose type is text, json_object or json_schema", "only text for now"),
    ] = None
    guided_grammar: Annotated[str | None, _thing("a text", "not supported yet")] = None
    guided_regex: Annotated[str | None, _thing("a text", "not supported yet")] = None
    guided_choice: Annotated[list[str] | None, _thing("a list of texts", "not supported yet")] = (
        None
    )
    structured_outputs: Annotated[
        dict[str, Any] | None, _thing("an object", "not supported yet")
    ] = None
    adapter: Annotated[str | None, _thing("a text", "only none for now")] = None
    hlg: Annotated[Hlg | None, _thing("an object", "only with enabled false for now")] = None


class ChatRequest(SamplingFields, kw_only=True):
    """The body of `POST /v1/chat/completions`. Unknown fields are ignored."""

    messages: Annotated[list[Message], Meta(min_length=1, description="a list of messages")]
    tools: Annotated[
        list[Tool] | None,
        _thing("a list of function tools", "only with a tool_choice of none for now"),
    ] = None
    tool_choice: Annotated[
        Literal["none", "auto", "required"] | ToolChoice | None,
        _thing("none, auto, required or an object naming a function", "none or auto for now"),
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, Any] | None, _thing("an object", "passed on to the chat template")
    ] = None
    reasoning_effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None,
        _thing("one of the efforts", "only none for now"),
    ] = None


class CompletionRequest(SamplingFields, kw_only=True):
    """The body of `POST /v1/completions`. Unknown fields are ignored."""

    prompt: Annotated[str, Meta(min_length=1, description="a text that is not empty")]


class PromptTokensDetails(Struct, kw_only=True):
    """Where prompt tokens came from."""

    cached_tokens: int


class Usage(Struct, kw_only=True):
    """What an answer took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    lane: Lane


class AnswerMessage(Struct, kw_only=True):
    """The answer of a chat."""

    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(Struct, kw_only=True):
    """The one answer."""

    index: int = 0
    message: AnswerMessage
    finish_reason: FinishReason


class ChatCompletion(Struct, kw_only=True):
    """A whole chat answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Delta(Struct, kw_only=True):
    """What a chunk adds."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChunkChoice(Struct, kw_only=True):
    """A chunk of the one answer."""

    index: int = 0
    delta: Delta
    finish_reason: FinishReason | None = None


class ChatChunk(Struct, kw_only=True):
    """One event of a streamed chat answer; `usage` comes with the last."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType = UNSET


class TextChoice(Struct, kw_only=True):
    """The continuation, or the next piece of it."""

    index: int = 0
    text: str
    finish_reason: FinishReason | None = None


class TextCompletion(Struct, kw_only=True):
    """A whole continuation, or one event of a streamed one; `usage` comes with the last."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage | UnsetType = UNSET


class ErrorDetail(Struct, kw_only=True, omit_defaults=True):
    """What went wrong."""

    message: str
    type: str | None = None
    code: str | None = None
    param: str | None = None


class ErrorBody(Struct, kw_only=True):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class GenerationDefaults(Struct, kw_only=True):
    """What applies when a request leaves a field out."""

    temperature: float
    top_p: float
    top_k: int


class Capabilities(Struct, kw_only=True):
    """What a client can ask of the served model here."""

    chat_completions: bool
    text_completions: bool = True
    anthropic_messages: bool = False
    responses: bool = False
    streaming: bool = True
    tools: bool = False
    structured_output: bool = False
    logprobs: bool = False
    embeddings: bool = False
    vision: bool = False
    audio: bool = False
    adapters: bool = False
    training: bool = False


class ModelRow(Struct, kw_only=True):
    """A model: the served one, with what can be asked of it, or another one in the cache."""

    id: str
    object: Literal["model"] = "model"
    created: int
    vision: bool = False
    tier: Annotated[
        Literal["generic"] | UnsetType, Meta(description="of the models that are not served")
    ] = UNSET
    owned_by: Literal["mlxbun"] | UnsetType = UNSET
    context_window: int | UnsetType = UNSET
    batch_mode: Literal["off", "batch"] | UnsetType = UNSET
    gen_defaults: GenerationDefaults | UnsetType = UNSET
    capabilities: Capabilities | UnsetType = UNSET
    reasoning: bool | UnsetType = UNSET
    audio: bool | UnsetType = UNSET
    tools: bool | UnsetType = UNSET
    structured_output: bool | UnsetType = UNSET
    embeddings: bool | UnsetType = UNSET
    adapters: bool | UnsetType = UNSET
    training: bool | UnsetType = UNSET
    mtp: bool | UnsetType = UNSET


class ModelList(Struct, kw_only=True):
    """The models that can be asked for; the served one comes first."""

    object: Literal["list"] = "list"
    data: list[ModelRow]


class FoundModel(ModelRow, kw_only=True):
    """A list of one model that can be read as the model itself: `object` says `list`."""

    object: Literal["list"] = "list"  # type: ignore[assignment]
    data: list[ModelRow]
