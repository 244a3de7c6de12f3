"""Chat templates render as transformers renders them, and cannot leave their sandbox."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import TemplateError
from transformers import PreTrainedTokenizerFast

from core.engine.template import ChatTemplate
from tests.tiny import byte_tokenizer

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}"
    "{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ bos_token ~ '[INST] ' ~ message.content | trim ~ ' [/INST]' }}{% endfor %}"
)
TOOLS = (
    "{%- if tools %}\n    {{- tools | tojson(indent=2) }}\n{%- endif %}\n"
    "{%- set ns = namespace(last=-1) %}\n"
    "{%- for m in messages %}{%- if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}"
    "{%- if loop.index0 > 8 %}{% break %}{% endif %}{%- endfor %}\n"
    "{{- ns.last }}{% for m in messages %}\n{{ m.role }}: {{ m.content or '' }}"
    "{%- for call in m.tool_calls or [] %} -> {{ call.function | tojson }}{% endfor %}"
    "{% endfor %}\n"
    "{% if enable_thinking %}<think>\n{% else %}no thinking{% endif %}"
)
REASONING = (
    "{% for m in messages %}{{ m.role }}{% if m.reasoning_content %}({{ m.reasoning_content }}, "
    "{{ m.thinking }}){% endif %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    "{{ dict(a=1)['a'] }}{{ 'é<' | tojson }}{{ unknown }}{{ extra }}{{ strftime_now('%Y') }}"
)
NAMED = {"default": "plain{{ messages | length }}", "tool_use": "tools{{ tools | length }}"}

CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": " Be kind. "}, {"role": "user", "content": "é\n<b>"}],
    [
        {"role": "user", "content": "How warm?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning": "think",
            "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, None, True]}}}],
        },
        {"role": "tool", "content": "12", "name": None},
        {"role": "assistant", "content": "12 degrees", "thinking": "done"},
        {"role": "user", "content": "Thanks"},
    ],
]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("tools", [None, [TOOL]])
@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("source", [CHATML, LLAMA2, TOOLS, REASONING, NAMED])
def test_the_same_as_transformers(source: Any, conversation: Any, tools: Any) -> None:
    theirs = PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer(), bos_token="<s>")
    theirs.chat_template = source
    sources = {"default": source} if isinstance(source, str) else source
    ours = ChatTemplate(sources, theirs.special_tokens_map, thinking=True)
    options = {"add_generation_prompt": True, "extra": ["<", 2], "tools": tools}
    try:
        expected = theirs.apply_chat_template(
            conversation, tokenize=False, enable_thinking=True, **options
        )
    except TemplateError as refusal:
        with pytest.raises(TemplateError, match=str(refusal)):
            ours.render(conversation, **options)
    else:
        assert ours.render(conversation, **options) == expected


def test_what_the_conversation_says_goes_before_the_default() -> None:
    template = ChatTemplate(
        {"default": "{{ enable_thinking }} {{ bos_token }}"}, {"bos_token": "<s>"}, thinking=True
    )
    assert template.render([]) == "True <s>"
    assert template.render([], enable_thinking=False, bos_token="") == "False "


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ dict.__globals__['json'] }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{% set ns = namespace(_x=1) %}{{ ns }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    ],
)
def test_no_way_out_of_the_sandbox(source: str) -> None:
    template = ChatTemplate({"default": source}, {}, thinking=False)
    with pytest.raises(TemplateError):
        template.render([{"role": "user", "content": "Hi"}])


def test_objects_do_not_reach_a_template() -> None:
    template = ChatTemplate({"default": "{{ thing }}"}, {}, thinking=False)
    assert template.render([], thing=open) == "<builtin_function_or_method>"


def test_a_model_with_named_templates_only() -> None:
    template = ChatTemplate({"rag": "x"}, {}, thinking=False)
    with pytest.raises(ValueError, match="no default chat template"):
        template.render([])
