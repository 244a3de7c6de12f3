# ruff: noqa: RUF001 - DeepSeek's markers have a wide bar
"""What the grammars of each family allow is read back as valid calls, and nothing else is allowed.

The vocabulary is the 256 bytes and an end of sequence.
"""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import jsonschema
import numpy as np
import pytest

from core.engine.grammar.build import compile_plan
from core.engine.grammar.library import load_xgrammar
from core.engine.grammar.plan import make_plan
from core.engine.request import Tool, ToolUse
from core.engine.tools.choose import load_family
from core.engine.tools.formats import object_schema
from tests.core.engine.tools.folding import FAMILIES, WEATHER, parse

EOS = 256
WEATHER_TOOL = Tool(name="get_weather", parameters=WEATHER)
REQUIRED = ToolUse(tools=(WEATHER_TOOL, Tool(name="ping")), mode="required")
NAMED = ToolUse(tools=REQUIRED.tools, mode="named", name="get_weather")
ONE = ToolUse(tools=REQUIRED.tools, mode="required", parallel=False)

KIMI = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
KIMI_CALL = "<|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
DEEPSEEK = "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>"
DEEPSEEK_CALL = "<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
DEEPSEEK_V3_CALL = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{}\n```json\n{}\n```<｜tool▁call▁end｜>"
)
HARMONY_CALL = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}<|call|>"


def tagged(begin: str, parameter: str, end: str) -> Any:
    """Render a call as tags."""

    def render(name: str, **arguments: Any) -> str:
        values = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in arguments.items()
        }
        return (
            begin.format(name)
            + "".join(parameter.format(key, value) for key, value in values.items())
            + end
        )

    return render


def as_json(form: str) -> Any:
    return lambda name, **arguments: form.format(name, json.dumps(arguments))


def sentinels(begin: str, quote: str, end: str) -> Any:
    def render(name: str, **arguments: Any) -> str:
        values = (
            f"{key}:" + (f"{quote}{value}{quote}" if isinstance(value, str) else json.dumps(value))
            for key, value in arguments.items()
        )
        return f"{begin}call:{name}{{{','.join(values)}}}{end}"

    return render


def dsml(name: str, **arguments: Any) -> str:
    values = "".join(
        f'<｜DSML｜parameter name="{key}" string="{str(isinstance(value, str)).lower()}">'
        f"{value if isinstance(value, str) else json.dumps(value)}</｜DSML｜parameter>\n"
        for key, value in arguments.items()
    )
    return f'<｜DSML｜invoke name="{name}">\n{values}</｜DSML｜invoke>\n'


def python(name: str, **arguments: Any) -> str:
    return f"{name}({', '.join(f'{key}={json.dumps(v)}' for key, v in arguments.items())})"


OBJECT = '{{"name": "{}", "arguments": {}}}'
RENDER: dict[str, tuple[Any, str, str]] = {
    "hermes": (as_json("<tool_call>\n" + OBJECT + "\n</tool_call>"), "\n", "{}"),
    "qwen": (
        tagged(
            "<tool_call>\n<function={}>\n",
            "<parameter={}>\n{}\n</parameter>\n",
            "</function>\n</tool_call>",
        ),
        "\n",
        "{}",
    ),
    "glm": (
        tagged(
            "<tool_call>{}\n",
            "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n",
            "</tool_call>",
        ),
        "\n",
        "{}",
    ),
    "longcat": (
        tagged(
            "<longcat_tool_call>{}\n",
            "<longcat_arg_key>{}</longcat_arg_key>\n<longcat_arg_value>{}</longcat_arg_value>\n",
            "</longcat_tool_call>",
        ),
        "\n",
        "{}",
    ),
    "muse_spark": (
        tagged(
            '<atem:invoke name="{}">\n',
            '<atem:parameter name="{}">{}</atem:parameter>\n',
            "</atem:invoke>\n",
        ),
        "",
        "<atem:function_calls>\n{}</atem:function_calls>",
    ),
    "minicpm": (
        tagged('<function name="{}">', '<param name="{}">{}</param>', "</function>"),
        "",
        "{}",
    ),
    "minimax": (
        tagged('<invoke name="{}">\n', '<parameter name="{}">{}</parameter>\n', "</invoke>\n"),
        "",
        "<minimax:tool_call>\n{}</minimax:tool_call>",
    ),
    "gemma": (sentinels("<|tool_call>", '<|"|>', "<tool_call|>"), "", "{}"),
    "function_gemma": (
        sentinels("<start_function_call>", "<escape>", "<end_function_call>"),
        "",
        "{}",
    ),
    "kimi": (as_json(KIMI_CALL), "", KIMI),
    "deepseek": (as_json(DEEPSEEK_CALL), "", DEEPSEEK),
    "deepseek_v3": (as_json(DEEPSEEK_V3_CALL), "\n", DEEPSEEK),
    "deepseek_dsml": (dsml, "", "<｜DSML｜function_calls>\n{}</｜DSML｜function_calls>"),
    "deepseek_v4": (dsml, "", "<｜DSML｜tool_calls>\n{}</｜DSML｜tool_calls>"),
    "llama": (as_json('{{"name": "{}", "parameters": {}}}'), "; ", "{}"),
    "pythonic": (python, ", ", "<|tool_call_start|>[{}]<|tool_call_end|>"),
    "mistral": (as_json(OBJECT), ", ", "[TOOL_CALLS][{}]"),
    "mistral_args": (as_json("[TOOL_CALLS]{}[ARGS]{}"), "", "{}"),
    "harmony": (as_json(HARMONY_CALL), "<|start|>assistant", "{}"),
}
"""How a call is written, what stands between two, and around all."""


def render(family: str, *calls: tuple[str, dict[str, Any]]) -> str:
    one, separator, around = RENDER[family]
    return around.replace("{}", separator.join(one(name, **args) for name, args in calls))


@cache
def compiler() -> Any:
    xgrammar = load_xgrammar()
    vocabulary = [*(bytes([byte]) for byte in range(256)), b"</s>"]
    info = xgrammar.TokenizerInfo(
        vocabulary, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[EOS]
    )
    return xgrammar.GrammarCompiler(info)


def matcher(family: str, tools: ToolUse) -> Any:
    plan = make_plan(None, load_family(family).call_format(tools))
    return load_xgrammar().GrammarMatcher(compile_plan(load_xgrammar(), compiler(), plan))


def accepts(family: str, tools: ToolUse, text: str) -> bool:
    grammar = matcher(family, tools)
    return all(grammar.accept_token(byte) for byte in [*text.encode(), EOS])


PARIS = ("get_weather", {"city": "Paris", "days": 3, "metric": True})
OSLO = ("get_weather", {"city": "Oslo"})
PING: tuple[str, dict[str, Any]] = ("ping", {})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tools", [REQUIRED, NAMED, ONE], ids=["required", "named", "one"])
def test_a_call_is_accepted_and_read(family: str, tools: ToolUse) -> None:
    for call in (PARIS, OSLO):
        text = render(family, call)
        assert accepts(family, tools, text), text
        folded = parse(family, text, tools)
        assert (folded.names, json.loads(folded.arguments[0])) == ([call[0]], call[1])


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_wrong_is_refused(family: str) -> None:
    assert accepts(family, REQUIRED, render(family, PING))
    assert not accepts(family, NAMED, render(family, PING))
    for wrong in (
        ("launch", {}),
        ("get_weather", {}),
        ("get_weather", {"days": 3}),
        ("get_weather", {"city": "Paris", "days": 3.5}),
        ("get_weather", {"city": "Paris", "metric": "perhaps"}),
    ):
        assert not accepts(family, REQUIRED, render(family, wrong)), wrong
    for text in ("", "It is sunny.", "Well. " + render(family, PARIS)):
        assert not accepts(family, REQUIRED, text)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "harmony"])
def test_how_many_calls(family: str) -> None:
    both = render(family, PARIS, OSLO)
    assert accepts(family, REQUIRED, both)
    assert parse(family, both, REQUIRED).names == ["get_weather", "get_weather"]
    assert not accepts(family, NAMED, both)
    assert not accepts(family, ONE, both)


def test_harmony_reasons_first_and_makes_one_call() -> None:
    call = render("harmony", PARIS)
    thought = "<|channel|>analysis<|message|>Hm < 3.<|end|><|start|>assistant"
    assert accepts("harmony", REQUIRED, thought + thought + call)
    assert accepts("harmony", REQUIRED, call.removesuffix("<|call|>"))
    assert not accepts("harmony", REQUIRED, render("harmony", PARIS, OSLO))
    assert not accepts("harmony", REQUIRED, thought)


RICH: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "label": {"type": "string"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "temperature": {"type": "number"},
        "metric": {"type": "boolean"},
        "unit": {"enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "point": {"$ref": "#/$defs/point"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
    },
    "required": ["city", "point", "unit"],
    "additionalProperties": False,
}
OPTIONAL: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    "additionalProperties": False,
}
LIMITED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "pattern": "^[a-c]{2,4}$"},
        "word": {"type": "string", "minLength": 1, "maxLength": 5},
        "day": {"type": "string", "format": "date"},
        "half": {"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 9},
        "kind": {"enum": ["a", "b", "c"], "not": {"enum": ["b"]}},
        "free": {},
        "maybe": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 7}]},
        "codes": {"type": "array", "items": {"type": "string", "pattern": "^<"}, "maxItems": 2},
    },
    "required": ["code", "day", "maybe"],
    "additionalProperties": False,
}
BOTH: dict[str, Any] = {
    "allOf": [
        {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        {"properties": {"y": {"type": "string", "maxLength": 4}}, "required": ["y"]},
    ]
}
ONE_OF_TWO: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "anyOf": [
        {"properties": {"k": {"type": "integer"}}, "required": ["k"]},
        {"properties": {"s": {"type": "string"}}, "required": ["s"]},
    ],
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "rich": RICH,
    "optional": OPTIONAL,
    "any": {},
    "limited": LIMITED,
    "both": BOTH,
    "either": ONE_OF_TWO,
}
MANY = ToolUse(
    tools=tuple(Tool(name=name, parameters=schema) for name, schema in SCHEMAS.items()),
    mode="required",
)
CLOSERS = (
    "</parameter>",
    "</arg_value>",
    '<|"|>',
    "<escape>",
    "</param>",
    "</longcat_arg_value>",
    "</atem:parameter>",
    "</｜DSML｜parameter>",
    "<|end|><|start|>assistant",
)


def walk(family: str, seed: int, longest: int = 2500) -> str | None:
    """Return a random text that the grammar allows; None: it did not end in time."""
    draw = random.Random(seed)
    grammar = matcher(family, MANY)
    mask = np.full(load_xgrammar().get_bitmask_shape(1, 257), -1, np.int32)
    out = bytearray()
    while len(out) < longest:
        mask[:] = -1
        grammar.fill_next_token_bitmask(mask, 0)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[:257])
        if EOS in allowed and (len(allowed) == 1 or draw.random() < 0.5):
            return out.decode()
        if draw.random() < 0.1 or len(out) > 400:
            closer = next((text for text in CLOSERS if grammar.accept_string(text)), "")
            out += closer.encode()
            if closer:
                continue
        byte = _choose(draw, [int(token) for token in allowed if token != EOS])
        assert grammar.accept_token(byte)
        out.append(byte)
    return None


def _choose(draw: random.Random, allowed: list[int]) -> int:
    closing = [byte for byte in allowed if chr(byte) in '"<}])|']
    plain = [byte for byte in allowed if 32 <= byte < 127 or byte == 10]
    chance = draw.random()
    if chance < 0.25 and closing:
        return draw.choice(closing)
    return draw.choice(plain if chance < 0.8 and plain else allowed)


@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_is_allowed_is_valid(family: str) -> None:
    ended = 0
    for seed in range(16):
        text = walk(family, seed)
        if text is None:
            continue
        ended += 1
        folded = parse(family, text, MANY)
        assert folded.names, text
        assert folded.content == "", text
        for name, arguments in zip(folded.names, folded.arguments, strict=True):
            judge = jsonschema.Draft202012Validator(
                SCHEMAS[name], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
            )
            judge.validate(json.loads(arguments))
    assert ended


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        ({}, {"type": "object"}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": ["object", "null"], "title": "t"}, {"type": "object", "title": "t"}),
        ({"type": "string", "minLength": 3}, {"type": "object"}),
        ({"type": ["array", "null"]}, {"type": "object"}),
    ],
)
def test_arguments_are_an_object_whatever_the_schema_says(parameters: Any, schema: Any) -> None:
    assert object_schema(parameters) == schema
