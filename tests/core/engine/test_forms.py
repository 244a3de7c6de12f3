"""Forms, calls and reasoning together, in a running engine on a random model: it would write
anything, so what comes is what was enforced.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from core.engine.engine import Engine
from core.engine.events import Finished, Position
from core.engine.request import (
    ChatPrompt,
    GenerationRequest,
    GrammarSpec,
    SamplingParams,
    Thinking,
    Tool,
    ToolUse,
)
from core.errors import BadRequest
from tests.cases import round_2
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.tools.folding import Folded, fold, is_json
from tests.tiny import llama_config, make_model

THINKS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
    "{% if not enable_thinking %}\n</think>\n\n{% endif %}{% endif %}"
)
REFUSES_SYSTEM = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('No system.') }}"
    "{% endif %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
)
PAINT = Tool(
    name="paint",
    parameters={
        "type": "object",
        "properties": {"color": {"enum": ["red", "<think>"]}},
        "required": ["color"],
        "additionalProperties": False,
    },
)
CHOICES = ("yes", "<think>no</think>", "</think>")
ON, OFF = Thinking(enabled=True, budget=3), Thinking(enabled=False)


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "thinker"
    config = llama_config(max_position_embeddings=2048)
    return make_model(folder, chat_template=THINKS, config=config)


def ask(
    engine: Engine, *, seed: int = 0, bias: tuple[tuple[int, float], ...] = (), **fields: Any
) -> tuple[Folded, Finished]:
    prompt = ChatPrompt(messages=({"role": "user", "content": "Hi."},))
    sampling = SamplingParams(temperature=4.0, seed=seed, logit_bias=bias)
    fields.setdefault("max_tokens", 300)
    generation = engine.submit(GenerationRequest(prompt=prompt, sampling=sampling, **fields))
    *pieces, end = list(generation)
    assert isinstance(end, Finished)
    return fold(piece for piece in pieces if not isinstance(piece, Finished | Position)), end


@pytest.mark.parametrize("thinking", [ON, OFF])
def test_a_choice_is_exactly_one_of_the_choices(
    open_tiny: OpenEngine, thinker: Path, thinking: Thinking
) -> None:
    engine = open_tiny(thinker)
    seen = set()
    for seed in range(12):
        form = GrammarSpec(kind="choice", source=CHOICES)
        answer, end = ask(engine, seed=seed, grammar=form, thinking=thinking)
        assert answer.content in CHOICES
        assert end.reason == "stop"
        assert bool(answer.reasoning) <= bool(thinking.enabled)
        seen.add(answer.content)
    assert len(seen) > 1


@pytest.mark.parametrize("thinking", [ON, OFF])
def test_who_must_call_calls_whatever_form_is_asked_for(
    open_tiny: OpenEngine, thinker: Path, thinking: Thinking
) -> None:
    engine = open_tiny(thinker)
    for seed in range(6):
        answer, end = ask(
            engine,
            seed=seed,
            grammar=GrammarSpec(kind="choice", source=("yes", "no")),
            tools=ToolUse(tools=(PAINT,), mode="named", name="paint"),
            thinking=thinking,
        )
        assert answer.names == ["paint"]
        assert json.loads(answer.arguments[0])["color"] in ("red", "<think>")
        assert answer.content == ""
        assert end.reason == "tool_calls"


def test_where_only_the_empty_text_matches_the_answer_is_empty(
    open_tiny: OpenEngine, thinker: Path
) -> None:
    form = GrammarSpec(kind="ebnf", source='root ::= ""')
    answer, end = ask(open_tiny(thinker), grammar=form, thinking=OFF)
    assert (answer.content, end.reason, end.usage.completion_tokens) == ("", "stop", 1)


def test_a_dot_matches_as_it_does_elsewhere(open_tiny: OpenEngine, thinker: Path) -> None:
    form = GrammarSpec(kind="regex", source="(.|a){30}")
    line_ends = ((ord("\n"), 50.0), (ord("\r"), 50.0))
    answer, _ = ask(open_tiny(thinker), grammar=form, thinking=OFF, bias=line_ends)
    assert re.fullmatch(".+", answer.content)


def test_a_form_that_is_too_long_to_be_told_is_no_error(
    open_tiny: OpenEngine, thinker: Path
) -> None:
    engine = open_tiny(thinker, grammar=False)
    form = GrammarSpec(kind="json_schema", source={"enum": ["x" * 100] * 100})
    _, end = ask(engine, grammar=form, max_tokens=2)
    assert end.usage.prompt_tokens < 100


def test_templates_without_system_messages_are_told_in_the_question(
    open_tiny: OpenEngine, tmp_path: Path
) -> None:
    engine = open_tiny(make_model(tmp_path / "strict", chat_template=REFUSES_SYSTEM))
    engine_without = open_tiny(tmp_path / "strict", grammar=False)
    short, told = (
        ask(each, grammar=GrammarSpec(kind="json"), max_tokens=2)[1].usage.prompt_tokens
        for each in (engine, engine_without)
    )
    assert told > short


def test_the_engine_says_whether_forms_are_enforced(open_tiny: OpenEngine) -> None:
    assert open_tiny().info.forms
    assert not open_tiny(grammar=False).info.forms


NOTE = Tool(
    name="save_note",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "body": {"type": "string"}},
        "required": ["path", "body"],
    },
)


def test_a_call_that_is_cut_by_the_limit_is_not_closed(
    open_tiny: OpenEngine, tiny_folder: Path
) -> None:
    engine = open_tiny(tiny_folder)
    tools = ToolUse(tools=(NOTE,), mode="required")
    cut = 0
    for seed, limit in enumerate(range(10, 130, 6)):
        folded, end = ask(engine, seed=seed, tools=tools, max_tokens=limit)
        if end.reason == "length" and folded.names:
            cut += 1
            last = folded.arguments[-1]
            assert not is_json(last) or "body" in json.loads(last)
        for arguments in folded.arguments if end.reason == "tool_calls" else ():
            assert set(json.loads(arguments)) >= {"path", "body"}
        assert end.usage.repairs == ()
    assert cut


PLAIN = Tool(
    name="plain", parameters={"type": "object", "required": ["n"], "properties": {"n": {}}}
)


@pytest.mark.parametrize("number", range(4))
def test_tools_are_enforced_whatever_their_schemas_say(
    open_tiny: OpenEngine, thinker: Path, number: int
) -> None:
    wanted = round_2("tool-schema")[number]["parameters"]
    tools = (Tool(name="case", parameters=wanted), PLAIN)
    ended = 0
    for seed in range(6):
        prompt = ChatPrompt(messages=({"role": "user", "content": "Hi."},))
        generation = open_tiny(thinker).submit(
            GenerationRequest(
                prompt=prompt,
                sampling=SamplingParams(temperature=2.0, seed=seed),
                max_tokens=400,
                thinking=OFF,
                tools=ToolUse(tools=tools, mode="required", parallel=False),
            )
        )
        *pieces, end = list(generation)
        unique = "uniqueItems" in json.dumps(wanted)
        assert len(generation.warnings) == unique
        assert all("tool case: " in one and "uniqueItems" in one for one in generation.warnings)
        answer = fold(piece for piece in pieces if not isinstance(piece, Finished | Position))
        assert isinstance(end, Finished)
        if end.reason != "tool_calls":
            continue
        ended += 1
        by_name = {tool.name: tool.parameters for tool in tools}
        judged = {k: v for k, v in by_name[answer.names[0]].items() if k != "uniqueItems"}
        arguments = json.loads(answer.arguments[0])
        if not unique:
            jsonschema.Draft202012Validator(judged_draft(judged)).validate(arguments)
    assert ended


def judged_draft(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its draft-7 tuples as 2020-12 writes them."""
    text = json.dumps(schema)
    return json.loads(text.replace('"items": [', '"prefixItems": ['))  # type: ignore[no-any-return]


def test_one_tool_that_cannot_be_enforced_spoils_no_other(
    open_tiny: OpenEngine, thinker: Path
) -> None:
    broken = Tool(name="broken", parameters={"properties": {"x": {"pattern": "(?=a)"}}})
    for seed in range(4):
        prompt = ChatPrompt(messages=({"role": "user", "content": "Hi."},))
        generation = open_tiny(thinker).submit(
            GenerationRequest(
                prompt=prompt,
                sampling=SamplingParams(temperature=2.0, seed=seed),
                max_tokens=300,
                thinking=OFF,
                tools=ToolUse(tools=(broken, PAINT), mode="named", name="paint"),
            )
        )
        assert list(generation)
        assert generation.warnings == ()
    both = ToolUse(tools=(broken, PAINT), mode="required")
    answer = open_tiny(thinker).submit(
        GenerationRequest(prompt=prompt, max_tokens=2, thinking=OFF, tools=both)
    )
    list(answer)
    assert answer.warnings == (
        "grammar not enforced: tool broken: the regex looks ahead or behind, or has flags; "
        "its arguments may be any object",
    )


@pytest.mark.parametrize(
    ("grammar", "tools", "field"),
    [
        (GrammarSpec(kind="regex", source="[" * 10_000, field="guided_regex"), (), "guided_regex"),
        (
            GrammarSpec(
                kind="json_schema",
                source={"properties": {"x": {"pattern": r"[\w" * 8000}}},
                field="response_format.json_schema.schema",
            ),
            (),
            "response_format.json_schema.schema.properties.x.pattern",
        ),
        (
            None,
            (
                PAINT,
                Tool(
                    name="t",
                    parameters={"properties": {"x": {"pattern": "(" * 9000}}},
                    field="functions[7].parameters",
                ),
            ),
            "functions[7].parameters.properties.x.pattern",
        ),
    ],
)
def test_a_long_form_that_fails_a_cheap_check_is_refused(
    open_tiny: OpenEngine, thinker: Path, grammar: Any, tools: Any, field: str
) -> None:
    with pytest.raises(BadRequest, match="cannot be used") as refusal:
        ask(
            open_tiny(thinker),
            grammar=grammar,
            tools=ToolUse(tools=tools, mode="required" if tools else "auto"),
        )
    assert refusal.value.field == field
    assert field in str(refusal.value)
