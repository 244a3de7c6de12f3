"""What the OpenAI protocol's requests hold, and its errors, as they stand on the wire.

A request field's description reads "what it must be; what it does": the first half is also the
sentence of its error (`decode`), the whole is in the OpenAPI document. Knows nothing of how a
request is answered.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

MAX_STOPS = 64
"""Each stop text is looked for after every token, so their number is bounded."""
MAX_STOP_TOKENS = 1024
MAX_STOP_LENGTH = 4096
"""Characters of one stop text; as many are held back from the client while it may still come."""


class TextPart(Struct, kw_only=True, tag_field="type", tag="text"):
    """A piece of a message's content. Several are joined."""

    text: str


class RefusalPart(Struct, kw_only=True, tag_field="type", tag="refusal"):
    """A piece of an assistant message that declines; read as text."""

    refusal: str


class ThinkingPart(Struct, kw_only=True, tag_field="type", tag="thinking"):
    """Reasoning in an assistant message."""

    thinking: str | list[TextPart]


class CalledFunction(Struct, kw_only=True):
    """What an earlier answer called."""

    name: str
    arguments: Annotated[
        str | dict[str, Any] | None, Meta(description="an object, or its JSON")
    ] = None


class CalledCustom(Struct, kw_only=True):
    """A custom tool that an earlier answer of another server called."""

    name: str
    input: str = ""


class PastToolCall(Struct, kw_only=True):
    """A tool call in an assistant message of the history."""

    id: str | None = None
    type: Literal["function", "custom"] = "function"
    function: CalledFunction | None = None
    custom: CalledCustom | None = None


class Message(Struct, kw_only=True):
    """One turn of the conversation. `developer` is read as `system`, `function` as `tool`."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart | RefusalPart | ThinkingPart] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[PastToolCall] | None = None
    function_call: Annotated[
        CalledFunction | None, Meta(description="the older form of one tool call")
    ] = None
    tool_call_id: str | None = None


class FunctionSpec(Struct, kw_only=True):
    """A function that the model may call."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=128,
            description="letters, digits and _ . : / - only",
        ),
    ]
    description: str | None = None
    parameters: Annotated[
        dict[str, Any] | None, Meta(description="JSON Schema of the arguments; none: no arguments")
    ] = None
    strict: Annotated[
        bool | None, Meta(description="accepted; a call that must be made is held to its schema")
    ] = None


class Tool(Struct, kw_only=True):
    """A tool that the model may call. Only functions can be called here; others are left out."""

    type: Annotated[str, Meta(description="function; tools of other types are left out")]
    function: Annotated[
        FunctionSpec | None, Meta(description="needed when the type is function")
    ] = None


class ToolName(Struct, kw_only=True):
    """A function or another tool by its name."""

    name: str


class ToolChoice(Struct, kw_only=True, tag_field="type", tag="function"):
    """The tool that the model has to call."""

    function: ToolName


class NamedTool(Struct, kw_only=True):
    """A tool by its type and, if it has one, its name."""

    type: str
    function: ToolName | None = None
    custom: ToolName | None = None


class AllowedTools(Struct, kw_only=True):
    """The tools that the model may call, or must call one of."""

    mode: Literal["auto", "required"]
    tools: list[NamedTool]


class AllowedToolsChoice(Struct, kw_only=True, tag_field="type", tag="allowed_tools"):
    """Some of the tools, for this request alone."""

    allowed_tools: AllowedTools


class JsonSchemaFormat(Struct, kw_only=True):
    """A JSON Schema that an answer must match."""

    name: str | None = None
    description: str | None = None
    schema: Annotated[
        dict[str, Any] | None, Meta(description="needed when the type is json_schema")
    ] = None
    strict: Annotated[bool | None, Meta(description="accepted; a schema is always enforced")] = None
    any_whitespace: Annotated[
        bool | None, Meta(description="false: no white space between the tokens of the JSON")
    ] = None


class ResponseFormat(Struct, kw_only=True):
    """The form that an answer must have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None
    schema: Annotated[dict[str, Any] | None, Meta(description="the same as json_schema.schema")] = (
        None
    )


class Reasoning(Struct, kw_only=True):
    """How the answer reasons, in the words of other servers."""

    effort: Annotated[str | None, Meta(description="the same as reasoning_effort")] = None


class StreamOptions(Struct, kw_only=True):
    """Accepted as it is: usage always comes with the last chunk."""

    include_usage: bool | None = None


_NATS = Annotated[float, Meta(ge=0, le=100, description="a number from 0 to 100, in nats")]
_SOFT_NATS = Annotated[
    float, Meta(ge=0.01, le=100, description="a number from 0.01 to 100, in nats")
]


class Hlg(Struct, kw_only=True):
    """Tone-curve sampling; what is left out is the server's value."""

    enabled: bool | None = None
    width: _NATS | None = None
    shoulder: _SOFT_NATS | None = None
    toe: _SOFT_NATS | None = None
    pivot_offset: _NATS | None = None


def _number(low: float, high: float, meaning: str) -> Meta:
    return Meta(ge=low, le=high, description=f"a number from {low:g} to {high:g}; {meaning}")


def _count(low: int, meaning: str) -> Meta:
    return Meta(ge=low, description=f"a whole number of at least {low}; {meaning}")


def _thing(wanted: str, meaning: str) -> Meta:
    return Meta(description=f"{wanted}; {meaning}")


_STOPS = (
    f"a string or a list of at most {MAX_STOPS} strings that are not empty, each of at most "
    f"{MAX_STOP_LENGTH} characters"
)
_WINDOW = _count(0, "recent tokens that the penalty looks at, 20 when left out; 0: all of them")
MAX_CHOICES = 8
"""Answers to one prompt: each is a row of the batch."""
MAX_ANSWERS = 128
"""Answers to all prompts of one request."""
_EFFORTS = "'none', 'minimal', 'low', 'medium', 'high', 'xhigh'"


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
    top_k: (
        Annotated[int, Meta(ge=-1, description="a whole number of at least -1; 0 and -1 are off")]
        | None
    ) = None
    min_p: Annotated[float, _number(0, 1, "0 is off")] | None = None
    seed: Annotated[
        int | None, _thing("a whole number of 64 bits", "makes the answer reproducible")
    ] = None
    stop: Annotated[
        str | list[str] | None, _thing(_STOPS, "the answer ends before it; an empty string is none")
    ] = None
    stop_token_ids: (
        Annotated[
            list[Annotated[int, Meta(ge=0)]],
            Meta(
                max_length=MAX_STOP_TOKENS,
                description=f"a list of at most {MAX_STOP_TOKENS} token ids; each ends the answer",
            ),
        ]
        | None
    ) = None
    min_tokens: (
        Annotated[int, _count(0, "tokens before EOS, a stop text or a stop token id counts")] | None
    ) = None
    ignore_eos: Annotated[bool | None, _thing("true or false", "never generate EOS")] = None
    n: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_CHOICES,
                description=f"a whole number from 1 to {MAX_CHOICES}; how many answers",
            ),
        ]
        | None
    ) = None
    top_logprobs: (
        Annotated[
            int,
            Meta(
                ge=-1,
                le=11,
                description="a whole number from -1 to 11; so many likeliest tokens beside each "
                "one, wins over logprobs; -1 is off",
            ),
        ]
        | None
    ) = None
    logit_bias: Annotated[
        dict[str, float] | None,
        _thing("a dict of int to float", "token ids and what is added to their logits"),
    ] = None
    repetition_penalty: (
        Annotated[
            float,
            _number(0, 100, "divides positive and multiplies negative logits of recent tokens"),
        ]
        | None
    ) = None
    repetition_context_size: Annotated[int, _WINDOW] | None = None
    presence_penalty: (
        Annotated[float, _number(-100, 100, "subtracted from logits of recent tokens, once")] | None
    ) = None
    presence_context_size: Annotated[int, _WINDOW] | None = None
    frequency_penalty: (
        Annotated[
            float,
            _number(-100, 100, "subtracted from logits of recent tokens, each time they came"),
        ]
        | None
    ) = None
    frequency_context_size: Annotated[int, _WINDOW] | None = None
    xtc_probability: (
        Annotated[
            float,
            _number(0, 1, "chance that a step drops the tokens above the threshold but the last"),
        ]
        | None
    ) = None
    xtc_threshold: (
        Annotated[float, _number(0, 0.5, "the probability that XTC drops above")] | None
    ) = None
    response_format: Annotated[
        ResponseFormat | None,
        _thing(
            "an object whose type is text, json_object or json_schema",
            "the JSON that the answer must be",
        ),
    ] = None
    guided_grammar: Annotated[
        str | None, _thing("a text", "a GBNF grammar that the answer must match")
    ] = None
    guided_regex: Annotated[
        str | None, _thing("a text", "a regular expression that the answer must match")
    ] = None
    guided_choice: (
        Annotated[
            list[str],
            Meta(description="a list of texts; the answer is exactly one of them"),
        ]
        | None
    ) = None
    structured_outputs: Annotated[
        dict[str, Any] | None,
        _thing("an object", "a JSON Schema that the answer must match, or vLLM's object"),
    ] = None
    guided_json: Annotated[
        dict[str, Any] | str | None,
        _thing("a JSON Schema, as an object or as JSON text", "vLLM's name for a schema"),
    ] = None
    json_schema: Annotated[
        dict[str, Any] | str | None,
        _thing("a JSON Schema, as an object or as JSON text", "llama.cpp's name for a schema"),
    ] = None
    format: Annotated[
        dict[str, Any] | str | None,
        _thing('"json" or a JSON Schema', "Ollama's name for the form of the answer"),
    ] = None
    grammar: Annotated[str | None, _thing("a string", "llama.cpp's name for guided_grammar")] = None
    adapter: Annotated[str | None, _thing("a text", "only none for now")] = None
    hlg: Annotated[Hlg | None, _thing("an object", "tone-curve sampling")] = None


class ChatRequest(SamplingFields, kw_only=True):
    """The body of `POST /v1/chat/completions`. Unknown fields are ignored."""

    messages: Annotated[list[Message], Meta(min_length=1, description="a list of messages")]
    logprobs: Annotated[
        bool | None, _thing("true or false", "the log-probability of every token")
    ] = None
    functions: Annotated[
        list[FunctionSpec] | None,
        _thing("a list of functions", "the older form of tools; answered by function_call"),
    ] = None
    function_call: Annotated[
        Literal["none", "auto"] | ToolName | None,
        _thing("none, auto or an object naming a function", "the older form of tool_choice"),
    ] = None
    tools: Annotated[list[Tool] | None, _thing("a list of tools", "what the model may call")] = None
    tool_choice: Annotated[
        Literal["none", "auto", "required"] | ToolChoice | AllowedToolsChoice | None,
        _thing(
            "none, auto, required or an object naming a function or allowed_tools",
            "none: the model is told of no tools; required and a name are enforced",
        ),
    ] = None
    parallel_tool_calls: Annotated[
        bool | None, _thing("true or false", "whether one answer may hold several calls")
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, Any] | None,
        _thing("an object", "passed on to the chat template; enable_thinking wins over the effort"),
    ] = None
    reasoning_effort: Annotated[
        Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None,
        _thing(f"one of {_EFFORTS}", "none switches the reasoning channel off, others on"),
    ] = None
    reasoning: Annotated[
        Reasoning | None, _thing("an object with an effort", "the same as reasoning_effort")
    ] = None
    thinking_budget: Annotated[int, _count(0, "most tokens of reasoning")] | None = None


_NotEmpty = Annotated[str, Meta(min_length=1)]


class CompletionRequest(SamplingFields, kw_only=True):
    """The body of `POST /v1/completions`. Unknown fields are ignored."""

    prompt: Annotated[
        _NotEmpty | Annotated[list[_NotEmpty], Meta(min_length=1)],
        _thing("a string or a list of strings, none empty", "each is continued on its own"),
    ]
    logprobs: Annotated[
        bool | Annotated[int, Meta(ge=0, le=11)] | None,
        _thing(
            "true, false or an integer from 0 to 11",
            "the log-probability of every token; an integer asks for OpenAI's arrays and the "
            "number of likeliest tokens in them",
        ),
    ] = None
    echo: Annotated[bool | None, _thing("true or false", "begin the answer with the prompt")] = None
    suffix: Annotated[
        str | None, _thing("a string", "text after the gap to fill, for models trained for it")
    ] = None


class ErrorDetail(Struct, kw_only=True):
    """What went wrong."""

    message: str
    type: str
    param: Annotated[str | None, Meta(description="the request field at fault")]
    code: str | None


class ErrorBody(Struct, kw_only=True):
    """The body of every answer that is not a success."""

    error: ErrorDetail
