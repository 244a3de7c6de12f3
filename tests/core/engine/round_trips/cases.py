# ruff: noqa: RUF001 - DeepSeek's markers have a wide bar
"""The chat templates of families and what goes with them.

The real ones come with models and with no package, so those in `templates/` are small ones of the
same format; each says whose documentation it follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A template, and how its model ends answers."""

    name: str
    """The template's file, if there is one."""
    code: str = ""
    """The module of `mlx_lm.chat_templates` that is the real template; empty: it is a file."""
    family: str = ""
    """The plug-in that must be found; empty: the one of the same name."""
    ends: tuple[str, ...]
    """Special tokens that end an answer, the usual one first; the others after a call."""
    special: tuple[str, ...] = ()
    """More special tokens."""
    reasons: bool = False
    """Whether the template shows the reasoning before a call to the model that called."""
    parallel: bool = True
    """Whether the template takes several calls in one message."""
    says_before: bool = True
    """Whether the template shows what was said before a call."""
    system: bool = True
    """Whether it takes system messages."""
    keeps: bool = True
    """Whether it shows a call as the model wrote it, from the end of its prompt on: Mistral's have
    ids of ours then, and MiniCPM's lack the empty channel of their prompt."""

    @property
    def template(self) -> str:
        """The source; empty: it is code."""
        if self.code:
            return ""
        return (TEMPLATES / f"{self.name}.jinja").read_text(encoding="utf-8")

    @property
    def tokens(self) -> tuple[str, ...]:
        """All special tokens of the vocabulary."""
        return (*self.ends, *self.special)

    def __str__(self) -> str:
        return self.name


CHATML = ("<|im_start|>",)
THINK = ("<think>", "</think>")
HERMES = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
DEEPSEEK = (
    *THINK,
    "<｜begin▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
)
MISTRAL = (
    "<s>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
)

CASES = (
    Case(name="hermes", ends=("<|im_end|>",), special=CHATML + THINK + HERMES, reasons=True),
    Case(name="qwen", ends=("<|im_end|>",), special=CHATML + THINK + HERMES, reasons=True),
    Case(
        name="glm",
        ends=("<|user|>", "<|observation|>"),
        special=(
            *("<|system|>", "<|assistant|>", "[gMASK]", "<sop>", "<tool_call>", "</tool_call>"),
            *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", *THINK),
        ),
        reasons=True,
    ),
    Case(
        name="minimax",
        ends=("[e~[",),
        special=("]~!b[", "]~b]", "<minimax:tool_call>", "</minimax:tool_call>", *THINK),
        reasons=True,
    ),
    Case(
        name="gemma",
        ends=("<turn|>", "<|tool_response>"),
        special=(
            *("<bos>", "<|turn>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", '<|"|>'),
            *("<tool_response|>", "<|channel>", "<channel|>", "<|think|>"),
        ),
        reasons=True,
    ),
    Case(
        name="function_gemma",
        ends=("<end_of_turn>", "<start_function_response>"),
        special=(
            *("<bos>", "<start_of_turn>", "<start_function_declaration>", "<escape>"),
            *("<end_function_declaration>", "<start_function_call>", "<end_function_call>"),
            "<end_function_response>",
        ),
    ),
    Case(
        name="harmony",
        ends=("<|return|>", "<|call|>"),
        special=("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>"),
        reasons=True,
        parallel=False,
        says_before=False,
    ),
    Case(
        name="llama",
        ends=("<|eot_id|>",),
        special=("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"),
        parallel=False,
        says_before=False,
    ),
    Case(name="mistral", ends=("</s>",), special=MISTRAL, says_before=False, keeps=False),
    Case(
        name="mistral_args",
        ends=("</s>",),
        special=(
            *MISTRAL,
            *("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[CALL_ID]", "[ARGS]", "[TOOL_CONTENT]"),
            *("[THINK]", "[/THINK]"),
        ),
        reasons=True,
        keeps=False,
    ),
    Case(
        name="kimi",
        ends=("<|im_end|>",),
        special=(
            *("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>"),
            *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>"),
            *("<|tool_call_argument_begin|>", "<|tool_call_end|>", *THINK),
        ),
        reasons=True,
    ),
    Case(name="deepseek", ends=("<｜end▁of▁sentence｜>",), special=DEEPSEEK),
    Case(name="deepseek_v3", ends=("<｜end▁of▁sentence｜>",), special=DEEPSEEK[2:]),
    Case(
        name="deepseek_dsml",
        code="deepseek_v32",
        ends=("<｜end▁of▁sentence｜>",),
        special=(*DEEPSEEK[:5], "｜DSML｜"),
        reasons=True,
    ),
    Case(
        name="longcat",
        ends=("</longcat_s>",),
        special=("<longcat_think>", "</longcat_think>", "<longcat_tool_call>"),
        reasons=True,
    ),
    Case(
        name="minicpm",
        ends=("<|im_end|>",),
        special=("<s>", *CHATML, "<function", "</function>", "<param", "</param>", *THINK),
        keeps=False,
    ),
    Case(name="muse_spark", ends=("<|im_end|>",), special=CHATML),
    Case(
        name="pythonic",
        ends=("<|im_end|>",),
        special=(
            *("<|startoftext|>", *CHATML, "<|tool_list_start|>", "<|tool_list_end|>"),
            *("<|tool_call_start|>", "<|tool_call_end|>"),
            *("<|tool_response_start|>", "<|tool_response_end|>"),
        ),
    ),
    Case(name="untold", family="hermes", ends=("<|im_end|>",), special=CHATML),
    Case(
        name="alternating",
        family="hermes",
        ends=("<end_of_turn>",),
        special=("<bos>", "<start_of_turn>"),
        system=False,
    ),
)
