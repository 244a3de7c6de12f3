# ruff: noqa: RUF001, RUF002 - DeepSeek's markers have a wide bar
"""DeepSeek V3.2 and V4: calls in tags that are marked by a token.

    <｜DSML｜function_calls>
    <｜DSML｜invoke name="get_weather">
    <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
    </｜DSML｜invoke>
    </｜DSML｜function_calls>

V4 calls the outer tag `tool_calls`. The tag of a value says whether it is a string.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId
from core.engine.tools.family import Family, Format, Message
from core.engine.tools.history import with_texts
from core.engine.tools.markup import Dialect
from core.engine.tools.schema import kinds

TOKEN = "｜DSML｜"
BLOCKS = ("function_calls", "tool_calls")
DIALECT = Dialect(
    call=f"<{TOKEN}invoke name=",
    call_end=f"</{TOKEN}invoke>",
    parameter=f"<{TOKEN}parameter name=",
    parameter_end=f"</{TOKEN}parameter>",
)


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    bodies = {
        f"<{TOKEN}{block}>": blocks.invocations(DIALECT, f"</{TOKEN}{block}>") for block in BLOCKS
    }
    return parse_answer(bodies, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return block(tools, BLOCKS[0])


def block(tools: ToolUse, name: str) -> Format:
    """Return what stands for the calls, within an outer tag."""
    return formats.tag(f"<{TOKEN}{name}>\n", formats.calls(tools, _call), f"</{TOKEN}{name}>")


def _call(tool: Tool) -> Format:
    begin = f'<{TOKEN}invoke name="{tool.name}">\n'
    content = formats.members(
        tool,
        lambda key, value: _member(tool, formats.text(key), value),
        _member(tool, formats.regex(r"\w{1,60}"), {}),
    )
    return formats.tag(begin, content, f"</{TOKEN}invoke>\n")


def _member(tool: Tool, name: Format, value: Any) -> Format:
    end = (DIALECT.parameter_end,)
    allowed = kinds(value, tool.parameters)
    options = []
    if "string" in allowed:
        options.append(("true", formats.plain_text(tool, value, end)))
    if allowed != {"string"}:
        options.append(("false", formats.others(tool, value, end)))
    return formats.either(
        [
            formats.sequence(
                formats.text(f'{DIALECT.parameter}"'),
                name,
                formats.tag(f'" string="{is_text}">', content, f"{DIALECT.parameter_end}\n"),
            )
            for is_text, content in options
        ]
    )


def prepare_history(messages: Iterable[Message]) -> list[Message]:
    """Give arguments as JSON texts, and a system message: where there is none, no tools are told.

    That is how mlx-lm's template for V3.2 has it (`mlx_lm.chat_templates.deepseek_v32`).
    """
    ready = with_texts(messages)
    if ready and ready[0].get("role") == "system":
        return ready
    return [{"role": "system", "content": ""}, *ready]


FAMILY = Family(
    name="deepseek_dsml",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(TOKEN,),
    prepare_history=prepare_history,
)
