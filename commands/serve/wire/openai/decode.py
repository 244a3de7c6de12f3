"""From the bytes of an OpenAI request to a `GenerationRequest`, or a `BadRequest` naming the field.

Texts that clients match on are checked by hand, before anything else, on the plain JSON; all the
rest is what `schema` says. Any bytes end in one of the two outcomes, never in another exception.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from commands.serve.wire.openai.forms import decode_form
from commands.serve.wire.openai.history import decode_messages
from commands.serve.wire.openai.legacy import as_tools, check_functions, named_as_functions
from commands.serve.wire.openai.nesting import check_nesting
from commands.serve.wire.openai.parsing import parse_object
from commands.serve.wire.openai.sampling import (
    capped,
    decode_ending,
    decode_logprobs,
    decode_sampling,
    decode_stops,
)
from commands.serve.wire.openai.schema import (
    MAX_ANSWERS,
    ChatRequest,
    CompletionRequest,
    SamplingFields,
)
from commands.serve.wire.openai.sentences import decapitalized
from commands.serve.wire.openai.shape import AnswerShape
from commands.serve.wire.openai.tools import (
    decode_thinking,
    decode_tools,
    left_out_tools,
    tools_for_template,
)
from commands.serve.wire.openai.unsupported import ignored_fields
from commands.serve.wire.openai.whole import with_whole_numbers
from core.engine.request import ChatPrompt, GenerationRequest, TextPrompt
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_Body = TypeVar("_Body", bound=SamplingFields)

_MOST_LOGPROBS = 11
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")

# These steer the rendering itself. A template of the client's could also loop for ever.
_NOT_THE_CLIENTS = frozenset(
    (
        "chat_template",
        "conversation",
        "messages",
        "tools",
        "tokenize",
        "tokenizer_kwargs",
        "add_generation_prompt",
        "return_dict",
        "return_tensors",
    )
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A decoded request."""

    request: GenerationRequest
    """What the engine is asked for."""
    stream: bool
    """Whether the answer is sent as it grows."""
    adapter: str | None = None
    """The adapter that it names, `none` among them; None: it names none."""
    further: tuple[GenerationRequest, ...] = ()
    """The same for each further prompt of a list."""
    shape: AnswerShape = field(default_factory=AnswerShape)
    """How the answer is written."""
    warnings: tuple[str, ...] = ()
    """What is not done as requested, or was changed, one sentence each."""

    @property
    def requests(self) -> tuple[GenerationRequest, ...]:
        """The requests to the engine, one for each prompt."""
        return (self.request, *self.further)


def decode_chat(body: bytes | bytearray) -> Call:
    """Decode the body of `POST /v1/chat/completions`.

    Raises:
        BadRequest: it is not one.
    """
    parsed = parse_object(body)
    raw = parsed.fields
    messages = raw.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages required", field="messages")
    _check_fixed_texts(raw)
    history = decode_messages(messages)
    call = _convert(raw, ChatRequest)
    check_functions(call)
    legacy = bool(call.functions)
    if legacy:
        raw = as_tools(raw)
        call = _convert(raw, ChatRequest)
    with named_as_functions() if legacy else nullcontext():
        tools = decode_tools(call)
    prompt = ChatPrompt(
        messages=history,
        template_kwargs=_template_kwargs(call),
        tools=tools_for_template(raw.get("tools", ()), tools),
    )
    request = replace(
        _request(call, raw, prompt),
        tools=tools,
        thinking=decode_thinking(call),
        logprobs=decode_logprobs(call.logprobs, call.top_logprobs),
    )
    return Call(
        request=request,
        stream=bool(call.stream),
        adapter=call.adapter,
        shape=AnswerShape(each=request.choices, function_call=legacy),
        warnings=(
            *parsed.warnings,
            *ignored_fields(raw, chat=True),
            *left_out_tools(call, raw.get("tools", ())),
        ),
    )


def decode_completion(body: bytes | bytearray) -> Call:
    """Decode the body of `POST /v1/completions`.

    Raises:
        BadRequest: it is not one.
    """
    parsed = parse_object(body)
    raw = parsed.fields
    prompts = _prompts(raw.get("prompt"))
    _check_fixed_texts(raw, arrays=True)
    call = _convert(raw, CompletionRequest)
    if len(prompts) * (call.n or 1) > MAX_ANSWERS:
        raise BadRequest(
            f"prompt and n ask for {len(prompts) * (call.n or 1)} answers; a request can have at "
            f"most {MAX_ANSWERS}.",
            field="prompt",
        )
    first, *further = (_continuation(call, raw, prompt) for prompt in prompts)
    arrays = isinstance(call.logprobs, int) and not isinstance(call.logprobs, bool)
    unscored = call.echo and first.logprobs is not None
    return Call(
        request=first,
        further=tuple(further),
        stream=bool(call.stream),
        adapter=call.adapter,
        shape=AnswerShape(each=first.choices, echo=prompts if call.echo else (), arrays=arrays),
        warnings=(
            *parsed.warnings,
            *ignored_fields(raw, chat=False),
            *((_UNSCORED,) if unscored else ()),
        ),
    )


_UNSCORED = "echo: log-probabilities do not cover the prompt"


def _prompts(given: Any) -> tuple[str, ...]:
    prompts = given if isinstance(given, list) else [given]
    if not prompts or not all(isinstance(prompt, str) and prompt for prompt in prompts):
        raise BadRequest(
            "prompt (a non-empty string) is required "
            "(token-array prompts are not accepted, matching mlx_lm.server)",
            field="prompt",
        )
    return tuple(prompts)


def _continuation(
    call: CompletionRequest, raw: Mapping[str, Any], prompt: str
) -> GenerationRequest:
    return replace(
        _request(call, raw, TextPrompt(text=prompt, suffix=call.suffix or "")),
        logprobs=decode_logprobs(call.logprobs, call.top_logprobs),
    )


def _check_fixed_texts(raw: Mapping[str, Any], *, arrays: bool = False) -> None:
    """Check the fields whose errors clients know by heart.

    Args:
        raw: the request's fields.
        arrays: whether `logprobs` may be an integer as well.
    """
    logprobs = raw.get("logprobs", False)
    counts = arrays and isinstance(logprobs, int) and 0 <= logprobs <= _MOST_LOGPROBS
    if not (isinstance(logprobs, bool) or counts):
        raise BadRequest("logprobs must be of type bool", field="logprobs")
    _check_top_logprobs(raw.get("top_logprobs", -1))
    if not _is_logit_bias(raw.get("logit_bias", {})):
        raise BadRequest("logit_bias must be a dict of int to float", field="logit_bias")
    _check_effort(raw)


def _check_effort(raw: Mapping[str, Any]) -> None:
    effort = raw.get("reasoning_effort")
    nested = raw.get("reasoning")
    other = nested.get("effort") if isinstance(nested, dict) else None
    for name, value in (("reasoning_effort", effort), ("reasoning.effort", other)):
        if value is not None and value not in _EFFORTS:
            listed = ", ".join(f"'{effort}'" for effort in _EFFORTS)
            raise BadRequest(f"{name} must be one of {listed}", field=name.partition(".")[0])
    if None not in (effort, other) and effort != other:
        raise BadRequest(
            "reasoning_effort and reasoning.effort differ. Send one of them.", field="reasoning"
        )


def _check_top_logprobs(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        problem = "of type int"
    elif value < -1:
        problem = "at least 0"
    elif value > _MOST_LOGPROBS:
        problem = "at most 11"
    else:
        return
    raise BadRequest(f"top_logprobs must be {problem}", field="top_logprobs")


def _is_logit_bias(value: Any) -> bool:
    try:
        return all(
            isinstance(int(key), int) and math.isfinite(float(bias)) for key, bias in value.items()
        )
    except (AttributeError, TypeError, ValueError, OverflowError):
        return False


def _convert(raw: Mapping[str, Any], kind: type[_Body]) -> _Body:
    # These were checked by hand, with more patience than the schema has.
    checked = {"messages": [{"role": "user"}], "logit_bias": None}
    fields = {**raw, **{name: value for name, value in checked.items() if name in raw}}
    try:
        return msgspec.convert(with_whole_numbers(fields, kind), kind)
    except msgspec.ValidationError as problem:
        raise _explain(str(problem), kind) from None
    except RecursionError:
        raise BadRequest("The JSON body is nested too deeply.") from None


def _explain(problem: str, kind: type[SamplingFields]) -> BadRequest:
    """Turn a complaint of msgspec, `Expected ... - at `$.field``, into a sentence on the field."""
    reason, _, place = problem.partition(" - at `$.")
    place = place.rstrip("`")
    field = place.partition(".")[0].partition("[")[0]
    wanted = _wanted(kind).get(field)
    if place == field and wanted:
        return BadRequest(f"{field} must be {wanted}.", field=field)
    return BadRequest(f"{place} is not valid: {decapitalized(reason)}.", field=field)


@cache
def _wanted(kind: type[SamplingFields]) -> dict[str, str]:
    """Return what each field must be, in the words of its description."""
    _, components = msgspec.json.schema_components([kind])
    found: dict[str, str] = {}
    for name, schema in components[kind.__name__]["properties"].items():
        for option in (schema, *schema.get("anyOf", ())):
            if text := option.get("description"):
                found[name] = text.partition(";")[0]
    return found


def _template_kwargs(call: ChatRequest) -> dict[str, Any]:
    kwargs = call.chat_template_kwargs or {}
    if taken := sorted(_NOT_THE_CLIENTS.intersection(kwargs)):
        raise BadRequest(
            f"chat_template_kwargs must not hold {', '.join(taken)}.", field="chat_template_kwargs"
        )
    check_nesting(kwargs, "chat_template_kwargs")
    return kwargs


def _request(
    call: SamplingFields, raw: Mapping[str, Any], prompt: ChatPrompt | TextPrompt
) -> GenerationRequest:
    return GenerationRequest(
        prompt=prompt,
        sampling=decode_sampling(call, raw.get("logit_bias")),
        max_tokens=capped(call.max_completion_tokens or call.max_tokens),
        stop=decode_stops(call.stop),
        ending=decode_ending(call),
        choices=call.n or 1,
        grammar=decode_form(call),
    )
