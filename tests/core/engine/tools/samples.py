# ruff: noqa: RUF001 - DeepSeek's markers have a wide bar
"""What models of each family write, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Call = tuple[str, dict[str, Any] | str]
"""A name and its arguments; a string: they are not a JSON object and stay as written."""


@dataclass(frozen=True)
class Sample:
    """One answer."""

    family: str
    text: str
    calls: tuple[Call, ...] = ()
    content: str = ""
    reasoning: str = ""
    repairs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.family}: {self.text[:60]!r}"


PARIS: Call = ("get_weather", {"city": "Paris"})
PARIS3: Call = ("get_weather", {"city": "Paris", "days": 3})
OSLO: Call = ("get_weather", {"city": "Oslo"})
PING: Call = ("ping", {})
UNKNOWN: Call = ("launch", {"x": 1})

HERMES = (
    Sample(
        "hermes",
        'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", '
        '"days": 3}}\n</tool_call>',
        (PARIS3,),
        "Let me look.",
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":{"city":"Oslo"}}</tool_call>'
        '<tool_call>{"name":"get_weather","arguments":{"city":"Paris"}}</tool_call>',
        (OSLO, PARIS),
    ),
    Sample(
        "hermes",
        "<tool_call>{'name': 'get_weather', 'arguments': {'city': 'Paris', 'metric': True,}}"
        "</tool_call>",
        (("get_weather", {"city": "Paris", "metric": True}),),
        repairs=("python_literal", "quotes", "trailing_comma"),
    ),
    Sample(
        "hermes",
        '<tool_call>```json\n{"name":"get_weather","arguments":{"city":"Paris"}}\n```</tool_call>',
        (PARIS,),
        repairs=("code_fence",),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":{"city":"Paris","days":3}',
        (PARIS3,),
        repairs=("closing_brackets",),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":{"city":"Paris","days":3}</tool_call>',
        (PARIS3,),
        repairs=("closing_brackets",),
    ),
    Sample(
        "hermes",
        '<tool_call>{"arguments":{"name":"get_weather","city":"Paris"}}</tool_call>',
        (PARIS,),
        repairs=("lifted_name",),
    ),
    Sample(
        "hermes",
        '<tool_call>{"arguments":{"name":"get_weather","arguments":{"city":"Paris"}}}</tool_call>',
        (PARIS,),
        repairs=("lifted_name",),
    ),
    Sample(
        "hermes",
        '<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}</tool_call>',
        (PARIS,),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":"{\\"city\\": \\"Paris\\"}"}</tool_call>',
        (PARIS,),
    ),
    Sample(
        "hermes",
        '<tool_call>{"arguments":"{\\"city\\": \\"P\\\\u00e9\\"}",'
        '"name":"get_weather"}</tool_call>',
        (("get_weather", {"city": "Pé"}),),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":{"city":"say None or True"}}</tool_call>',
        (("get_weather", {"city": "say None or True"}),),
    ),
    Sample(
        "hermes",
        "I would write <tool_call> but this is prose.",
        content="I would write <tool_call> but this is prose.",
    ),
    Sample(
        "hermes",
        '<tool_call> is how. <tool_call>{"name": "ping"}</tool_call>',
        (PING,),
        "<tool_call> is how.",
    ),
    Sample(
        "hermes",
        '<tool_call>{"type": "function", "function": {"name": "get_weather", "arguments": '
        '{"city": "Paris"}}}</tool_call>',
        (PARIS,),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name": "get_weather", "city": "Paris"}</tool_call>',
        (PARIS,),
        repairs=("lifted_arguments",),
    ),
    Sample("hermes", '<tool_call>{"name": "ping", "arguments": {}}</tool_call>', (PING,)),
    Sample("hermes", '<tool_call>{"name": "ping", "arguments": null}</tool_call>', (PING,)),
    Sample("hermes", '<tool_call>{"name": "ping", "arguments": ""}</tool_call>', (PING,)),
    Sample(
        "hermes",
        '<tool_call>{name: " functions.ping", arguments: {}}</tool_call>',
        (PING,),
        repairs=("quotes",),
    ),
    Sample("hermes", '<tool_call>{"name":"launch","arguments":{"x":1}}</tool_call>', (UNKNOWN,)),
    Sample(
        "hermes",
        '<tool_call>Here: {"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>',
        (PARIS,),
        repairs=("prose_prefix",),
    ),
    Sample(
        "hermes",
        '<tool_call>[{"name":"ping","arguments":{}},\n{"name":"get_weather","arguments":'
        '{"city":"Oslo"}}]</tool_call>',
        (PING, OSLO),
    ),
    Sample(
        "hermes",
        'A\n\n<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n\nB',
        (PING,),
        "A\n\n\n\nB",
    ),
    Sample(
        "hermes",
        '\n\n<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n\n  B \n',
        (PING,),
        "B",
    ),
    Sample(
        "hermes",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days" oops}} end',
        (("get_weather", '{"city": "Paris", "days" oops}} end'),),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"run","arguments":{"cmd":"tar cf "/srv/x y"","n":2}}</tool_call> ok',
        (("run", '{"cmd":"tar cf "/srv/x y"","n":2}'),),
        "ok",
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"run","arguments":{"cmd":"echo "}} > a; cat {b"}}</tool_call>',
        (("run", '{"cmd":"echo "}} > a; cat {b"}'),),
    ),
    Sample(
        "hermes",
        "<tool_call>{\"name\":\"run\",\"arguments\":{'cmd': 'don't', 'n': 2}}</tool_call>",
        (("run", "{'cmd': 'don't', 'n': 2}"),),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"run","arguments":"{\\"cmd\\": \\"rm \\"x\\"\\"}"}</tool_call>',
        (("run", '{"cmd": "rm "x""}'),),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":["Oslo"]}</tool_call>',
        (("get_weather", '["Oslo"]'),),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"run","arguments":{"re":"\\d","n":[1,,2], .5}}</tool_call>',
        (("run", '{"re":"\\d","n":[1,,2], .5}'),),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":{"city":"Paris"},"days":3}</tool_call>',
        (("get_weather", '{"city":"Paris"},"days":3'),),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"get_weather","arguments":{"city":"Paris"}}}]</tool_call>',
        (PARIS,),
        repairs=("extra_brackets",),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name":"edit","arguments":{"path":"a","text":"1\n\t2"}}</tool_call>',
        (("edit", {"path": "a", "text": "1\n\t2"}),),
        repairs=("control_characters",),
    ),
    Sample(
        "hermes",
        '<tool_call>{"name": "edit", "arguments": {"path": "ü😀\\ud83d\\ude00\\n", "edits": '
        '[{"a": [1, -2.5e3, null]}, []]}}</tool_call>',
        (("edit", {"path": "ü😀😀\n", "edits": [{"a": [1, -2500.0, None]}, []]}),),
    ),
    Sample("hermes", " \n white < and <tool \n ", content=" \n white < and <tool \n "),
)

QWEN = (
    Sample(
        "qwen",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        (PARIS3,),
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n007\n</parameter>\n"
        "<parameter=metric>\nTrue\n</parameter>\n</function>\n</tool_call>",
        (("get_weather", {"city": "007", "metric": True}),),
        repairs=("python_literal",),
    ),
    Sample(
        "qwen",
        "Fixing.\n<tool_call>\n<function=edit>\n<parameter=path>\na.html\n</parameter>\n"
        '<parameter=text>\n  <b>&lt;x&gt;</b>\n\n    "q\\n"\n</parameter>\n</function>\n'
        "</tool_call>",
        (("edit", {"path": "a.html", "text": '  <b>&lt;x&gt;</b>\n\n    "q\\n"'}),),
        "Fixing.",
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=edit>\n<parameter=path>\na.py\n</parameter>\n<parameter=edits>\n"
        '[{"name": "not a call", "arguments": {}}]\n</parameter>\n</function>\n</tool_call>',
        (("edit", {"path": "a.py", "edits": [{"name": "not a call", "arguments": {}}]}),),
    ),
    Sample(
        "qwen",
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>",
        (PARIS,),
    ),
    Sample(
        "qwen",
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>\nX",
        (PARIS,),
        "X",
    ),
    Sample(
        "qwen",
        "Write <function=name> as usual, or <function=launch>.",
        content="Write <function=name> as usual, or <function=launch>.",
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=ping>\n</function>\n</tool_call>\n<tool_call>\n"
        "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
        (PING, OSLO),
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=edit>\n<parameter=path>\n\n\n\n</parameter>\n"
        "<parameter=text>\n</parameter>\n</function>\n</tool_call>",
        (("edit", {"path": "\n\n", "text": ""}),),
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=edit>\n<parameter=path>\n</para </parameter\n</parameter>\n"
        "<parameter=edits>\n[{'a': True}, None,]\n</parameter>\n</function>\n</tool_call>",
        (("edit", {"path": "</para </parameter", "edits": [{"a": True}, None]}),),
        repairs=("python_literal", "quotes", "trailing_comma"),
    ),
    Sample(
        "qwen",
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        (PARIS,),
    ),
    Sample(
        "qwen",
        '<tool_call>\n<function=get_weather>\n{"city": "Paris"}\n</function>\n</tool_call>',
        (PARIS,),
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=launch>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
        (UNKNOWN,),
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
        "<parameter=days>\nthree\n</parameter>\n</tool_call>\nDone.",
        (("get_weather", {"city": "Paris", "days": "three"}),),
        "Done.",
        repairs=("closing_tags",),
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\nwell, no",
        (("get_weather", '{"city":"Paris"\nwell, no'),),
    ),
    Sample(
        "qwen",
        "<tool_call>\n<function=edit>\n<parameter=text>\nsay </parameter> so\n</parameter>\n"
        "</function>\n</tool_call>\nDone.",
        (("edit", '{"text":"say " so\n</parameter>'),),
        "Done.",
    ),
)

GLM = (
    Sample(
        "glm",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        (PARIS3,),
    ),
    Sample(
        "glm",
        "Sure.\n<tool_call>get_weather<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>"
        "\n<tool_call>ping</tool_call> ok",
        (OSLO, PING),
        "Sure.\n\n ok",
    ),
    Sample(
        "glm",
        '<tool_call>edit\n<arg_key>path</arg_key>\n<arg_value>\n <a> & "b"\n</arg_value>\n'
        '<arg_key>edits</arg_key>\n<arg_value>[1, {"a": []}]</arg_value>\n</tool_call>',
        (("edit", {"path": '\n <a> & "b"\n', "edits": [1, {"a": []}]}),),
    ),
    Sample("glm", '<tool_call>get_weather\n{"city": "Paris"}\n</tool_call>', (PARIS,)),
    Sample("glm", "A <tool_call>b c</tool_call>", content="A <tool_call>b c</tool_call>"),
)

MINICPM = (
    Sample(
        "minicpm",
        'Sure.<function name="get_weather"><param name="city">Paris</param>'
        '<param name="days">3</param></function>',
        (PARIS3,),
        "Sure.",
    ),
    Sample(
        "minicpm",
        '<function name="edit"><param name="path">a.html</param><param name="text">'
        "<![CDATA[<b>a & b</b>]]></param></function>",
        (("edit", {"path": "a.html", "text": "<b>a & b</b>"}),),
    ),
    Sample(
        "minicpm",
        '<function name="edit">\n<param name="path"><![CDATA[ a]]]]><![CDATA[>b\n]]> </param>\n'
        '<param name="edits"><![CDATA[["<x>"]]]></param>\n</function>\n<function name="ping">'
        "</function>",
        (("edit", {"path": " a]]>b\n", "edits": ["<x>"]}), PING),
    ),
    Sample(
        "minicpm",
        "<function name='get_weather'><param name='city'>\n  Paris \n</param></function>\nThere.",
        (PARIS,),
        "There.",
    ),
    Sample("minicpm", 'The tag <function name="', content='The tag <function name="'),
)

MISTRAL = (
    Sample(
        "mistral",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]',
        (PARIS3,),
    ),
    Sample(
        "mistral",
        'Yes. [TOOL_CALLS] [{"name": "ping", "arguments": {}, "id": "abcdefghi"}, '
        '{"name": "get_weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}]',
        (PING, OSLO),
        "Yes.",
    ),
    Sample("mistral", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', (PARIS,)),
    Sample(
        "mistral_args",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]ping[ARGS]{}',
        (PARIS, PING),
    ),
    Sample(
        "mistral_args",
        '[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{"city": "Oslo"}ping[ARGS]{}',
        (OSLO, PING),
    ),
    Sample("mistral", '[TOOL_CALLS]get_weather{"city": "Paris"}', (PARIS,)),
    Sample("mistral", "No [TOOL_CALLS] today", content="No [TOOL_CALLS] today"),
    Sample("mistral", "[TOOL_CALLS]ping[ARGS]{} [TOOL", (PING,), "[TOOL"),
    Sample(
        "mistral",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}',
        (PARIS,),
        repairs=("closing_brackets",),
    ),
    Sample(
        "mistral_args",
        '[TOOL_CALLS]run[ARGS]{"cmd": "echo "}" > {f}"}',
        (("run", '{"cmd": "echo "}" > {f}"}'),),
    ),
)

LLAMA = (
    Sample("llama", '[get_weather(city="Paris", days=3)]', (PARIS3,)),
    Sample(
        "llama",
        "[get_weather(city='Paris', days=3, metric=True)]",
        (("get_weather", {"city": "Paris", "days": 3, "metric": True}),),
    ),
    Sample(
        "llama",
        "\n[edit(path='it\\'s', edits=[{'a': None}, [1.5,]]), ping()]",
        (("edit", {"path": "it's", "edits": [{"a": None}, [1.5]]}), PING),
        repairs=("trailing_comma",),
    ),
    Sample("llama", '{"name": "get_weather", "parameters": {"city": "Paris"}}', (PARIS,)),
    Sample(
        "llama",
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}; '
        '{"name": "ping", "parameters": {}}',
        (PARIS, PING),
    ),
    Sample(
        "llama",
        '{"type": "function", "name": "get_weather", "parameters": {"city": "Oslo"}}',
        (OSLO,),
    ),
    Sample("llama", '<|python_tag|>get_weather(city="Oslo")', (OSLO,)),
    Sample(
        "llama",
        '<|python_start|>{"name": "get_weather", "parameters": {"city": "Oslo"}}<|python_end|>',
        (OSLO,),
    ),
    Sample("llama", "<|python_start|>[ping()]<|python_end|>", (PING,)),
    Sample(
        "llama",
        'Look:\n{"name": "get_weather", "parameters": {"city": "Paris"}}',
        (PARIS,),
        "Look:",
    ),
    Sample("llama", '{"name": "John", "age": 3}', content='{"name": "John", "age": 3}'),
    Sample("llama", '{"a": {"name": "ping"}}', content='{"a": {"name": "ping"}}'),
    Sample("llama", "[1, 2] and [launch(x=1)]", content="[1, 2] and [launch(x=1)]"),
    Sample("llama", "[launch(x=1)]", content="[launch(x=1)]"),
    Sample("llama", 'Say {"name": "ping"} so.', content='Say {"name": "ping"} so.'),
    Sample("llama", "[get_weather]\n- [ ] todo", content="[get_weather]\n- [ ] todo"),
    Sample("llama", '[{"name": "ping", "parameters": {}}]', (PING,)),
    Sample("llama", '[get_weather("Paris")] no', (("get_weather", '"Paris")] no'),)),
    Sample(
        "llama",
        '{"name": "ping", "parameters": {}}\nI have called it.',
        (PING,),
        "I have called it.",
    ),
    Sample(
        "llama",
        '{"name": "edit", "parameters": {"path": "a"}} > b"}}',
        (("edit", '{"path": "a"}} > b"}'),),
    ),
)

PYTHONIC = (
    Sample(
        "pythonic",
        'Sure.<|tool_call_start|>[get_weather(city="Paris", days=3)]<|tool_call_end|>',
        (PARIS3,),
        "Sure.",
    ),
    Sample(
        "pythonic",
        '<|tool_call_start|>[launch(x=1), edit(path="a", edits=[{"k": true}])]<|tool_call_end|>ok',
        (UNKNOWN, ("edit", {"path": "a", "edits": [{"k": True}]})),
        "ok",
    ),
    Sample("pythonic", "<|tool_call_start|>[ping()]<|tool_call_end|>", (PING,)),
    Sample(
        "pythonic",
        "<|tool_call_start|>[get_weather(city='Oslo'",
        (OSLO,),
        repairs=("closing_brackets",),
    ),
    Sample(
        "pythonic",
        '<|tool_call_start|>[edit(path="a", text="say "so"")]<|tool_call_end|>ok',
        (("edit", '{"path":"a","text":"say "so""'),),
        "ok",
    ),
    Sample("pythonic", "[ping()]", (PING,)),
)

GEMMA = (
    Sample(
        "gemma",
        'Ok.<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>',
        (PARIS3,),
        "Ok.",
    ),
    Sample(
        "gemma",
        '<|tool_call>call:edit{path:<|"|>a "b" \\n {c: <d>}\n<|"|>,edits:[{k:<|"|>v<|"|>,n:null},'
        "true]}<tool_call|><|tool_call>call:ping{}<tool_call|>",
        (("edit", {"path": 'a "b" \\n {c: <d>}\n', "edits": [{"k": "v", "n": None}, True]}), PING),
    ),
    Sample(
        "gemma",
        "<|tool_call>call:get_weather{city:New York}<tool_call|>",
        (("get_weather", {"city": "New York"}),),
        repairs=("quotes",),
    ),
    Sample(
        "gemma",
        "<|tool_call>call:get_weather{city:New York, NY}<tool_call|>ok",
        (("get_weather", '{"city":"New York", NY}'),),
        "ok",
    ),
    Sample("gemma", '<|tool_call>call:get_weather{"city": "Paris"}<tool_call|>', (PARIS,)),
    Sample("gemma", "<|tool_call>nothing", content="<|tool_call>nothing"),
    Sample(
        "function_gemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}"
        "<end_function_call>",
        (PARIS3,),
    ),
    Sample(
        "function_gemma",
        "<start_function_call>call:ping{}<end_function_call><start_function_call>call:get_weather"
        "{city:<escape>Oslo<escape>}<end_function_call>",
        (PING, OSLO),
    ),
)

KIMI = (
    Sample(
        "kimi",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        '<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>',
        (PARIS,),
    ),
    Sample(
        "kimi",
        "Go.<|tool_calls_section_begin|>\n<|tool_call_begin|> functions.get_weather:0 "
        '<|tool_call_argument_begin|> {"city": "Oslo"} <|tool_call_end|>\n<|tool_call_begin|>ping:1'
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|> Gone.",
        (OSLO, PING),
        "Go. Gone.",
    ),
    Sample(
        "kimi",
        '<|tool_call_begin|>functions.launch:0<|tool_call_argument_begin|>{"x": 1<|tool_call_end|>',
        (UNKNOWN,),
        repairs=("closing_brackets",),
    ),
    Sample(
        "kimi",
        "<|tool_call_begin|>functions.launch:0<|tool_call_argument_begin|>"
        '{"x": "a "b""}<|tool_call_end|>ok',
        (("launch", '{"x": "a "b""}'),),
        "ok",
    ),
    Sample("kimi", "<|tool_calls_section_begin|>?", content="<|tool_calls_section_begin|>?"),
)

DEEPSEEK = (
    Sample(
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Paris", "days": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        (PARIS3,),
    ),
    Sample(
        "deepseek",
        "Both.\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Oslo"}<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        (OSLO, PING),
        "Both.",
    ),
    Sample(
        "deepseek_v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Paris"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>'
        "ping\n"
        "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        (PARIS, PING),
    ),
    Sample(
        "deepseek_v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>launch\n```json\n"
        '{"x": "a "b""}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>ok',
        (("launch", '{"x": "a "b""}'),),
        "ok",
    ),
    Sample("deepseek", "<｜tool▁calls▁begin｜> hm", content="<｜tool▁calls▁begin｜> hm"),
    Sample(
        "deepseek_dsml",
        '\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        (PARIS3,),
    ),
    Sample(
        "deepseek_v4",
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="launch">\n'
        '<｜DSML｜parameter name="x" string="true">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="ping">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
        (("launch", {"x": "1"}), PING),
    ),
)

MINIMAX = (
    Sample(
        "minimax",
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>'
        '\n<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>',
        (PARIS3,),
    ),
    Sample(
        "minimax",
        'On it.\n<minimax:tool_call>\n<invoke name="edit">\n<parameter name="path">\na "b"\n'
        '</parameter>\n<parameter name="edits">["<x>"]</parameter>\n</invoke>\n<invoke name="ping">'
        "\n</invoke>\n</minimax:tool_call>",
        (("edit", {"path": 'a "b"', "edits": ["<x>"]}), PING),
        "On it.",
    ),
    Sample("minimax", "<minimax:tool_call>\nno", content="<minimax:tool_call>\nno"),
)

MORE = (
    Sample(
        "longcat",
        "Hm.\n<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
        "<longcat_arg_value>Paris</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n"
        "<longcat_arg_value>3</longcat_arg_value>\n</longcat_tool_call>\n<longcat_tool_call>ping\n"
        "</longcat_tool_call>",
        (PARIS3, PING),
        "Hm.",
    ),
    Sample(
        "longcat",
        '<longcat_tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}'
        "</longcat_tool_call>",
        (OSLO,),
    ),
    Sample("longcat", "<longcat_tool_call> is it", content="<longcat_tool_call> is it"),
    Sample(
        "muse_spark",
        '<atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">Paris'
        '</atem:parameter>\n</atem:invoke>\n<atem:invoke name="ping">\n</atem:invoke>\n'
        "</atem:function_calls>\nThere.",
        (PARIS, PING),
        "There.",
    ),
)

HARMONY = (
    Sample(
        "harmony",
        "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant<|channel|>"
        "commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city":"Paris"}<|call|>',
        (PARIS,),
        reasoning="Need the weather.",
    ),
    Sample(
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
        "It is < 3 degrees.<|return|>",
        content="It is < 3 degrees.",
        reasoning="Hm.",
    ),
    Sample(
        "harmony",
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.ping"
        "<|channel|>commentary json<|message|>{}<|call|>",
        (PING,),
        "I look.",
    ),
    Sample(
        "harmony",
        " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>"
        '{"city": "Oslo"',
        (OSLO,),
        repairs=("closing_brackets",),
    ),
    Sample(
        "harmony",
        "<|channel|>analysis<|message|>One.<|end|><|start|>assistant<|channel|>analysis<|message|>"
        "Two.<|end|><|start|>assistant<|channel|>commentary<|message|>A<|end|><|start|>assistant"
        "<|channel|>final<|message|>B<|return|>",
        content="A\n\nB",
        reasoning="One.\n\nTwo.",
    ),
    Sample("harmony", "No channels at all.", content="No channels at all."),
    Sample(
        "harmony",
        "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
        reasoning="print(1)",
    ),
    Sample(
        "harmony",
        "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{} really<|call|>",
        (("ping", "{} really"),),
    ),
)

SAMPLES = (
    *HERMES,
    *QWEN,
    *GLM,
    *MINICPM,
    *MISTRAL,
    *LLAMA,
    *PYTHONIC,
    *GEMMA,
    *KIMI,
    *DEEPSEEK,
    *MINIMAX,
    *MORE,
    *HARMONY,
)
