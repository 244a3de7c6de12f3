"""Greedy answers side by side, and which answers are valid JSON or calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.engine.engine import Engine
from core.engine.loader import load
from core.engine.request import SamplingParams
from core.evals.answers import (
    Answers,
    ask,
    compare_answers,
    first_difference,
    fits_tool,
    is_object,
)
from core.evals.prompts import CALL_TASKS, JSON_TASKS, QUESTIONS, TOOLS, JsonTask
from core.machine.compute import prepare_compute
from tests.tiny import llama_config, make_model

TASK = JsonTask(question="", keys=("a", "b"))


@pytest.mark.parametrize(
    ("first", "second", "position"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 5, 3], 1),
        ([4], [5], 0),
        ([1, 2], [1, 2, 3], 2),
        ([], [1], 0),
        ([], [], None),
    ],
)
def test_the_first_difference(first: list[int], second: list[int], position: int | None) -> None:
    assert first_difference(first, second) == position
    assert first_difference(second, first) == position


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('{"a": 1, "b": [2]}', True),
        ('  {"a": 1, "b": null, "c": {}}\n', True),
        ('```json\n{"a": 1, "b": 2}\n```', True),
        ('```\n{"a": 1, "b": 2}\n```\n', True),
        ('{"a": 1}', False),
        ("[1, 2]", False),
        ('{"a": 1, "b": 2,}', False),
        ("{'a': 1, 'b': 2}", False),
        ('{"a": True, "b": 2}', False),
        ('Here it is: {"a": 1, "b": 2}', False),
        ('{"a": 1, "b": 2', False),
        ("", False),
        ("```" * 100_000, False),
    ],
)
def test_json_is_an_object_with_its_keys_and_nothing_else(text: str, valid: bool) -> None:
    assert is_object(text, TASK) is valid


@pytest.mark.parametrize(
    ("name", "arguments", "valid"),
    [
        ("get_weather", '{"city": "Oslo"}', True),
        ("get_weather", '{"city": "Oslo", "unit": "celsius"}', True),
        ("set_timer", '{"minutes": 12}', True),
        ("set_timer", '{"minutes": 12.5, "label": "eggs"}', True),
        ("search_books", '{"query": "bees", "limit": 3}', True),
        ("search_books", '{"query": "bees", "limit": 3.5}', False),
        ("search_books", '{"query": "bees", "limit": true}', False),
        ("get_weather", "{}", False),
        ("get_weather", '{"city": 3}', False),
        ("get_weather", '{"city": "Oslo", "day": "today"}', False),
        ("get_weather", '["Oslo"]', False),
        ("get_weather", '{"city": "Os', False),
        ("get_time", '{"city": "Oslo"}', False),
    ],
)
def test_a_call_has_to_fit_its_tool(name: str, arguments: str, valid: bool) -> None:
    assert fits_tool(name, arguments) is valid


def test_every_task_can_be_done() -> None:
    names = {tool["function"]["name"] for tool in TOOLS}
    assert {task.tool for task in CALL_TASKS} == names
    assert all(key in task.question for task in JSON_TASKS for key in task.keys)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    config = llama_config(max_position_embeddings=4096)
    with _engine(tmp_path_factory.mktemp("m") / "tiny", config) as running:
        yield running


def _engine(folder: Path, config: dict[str, object], *, template: bool = True) -> Engine:
    if template:
        make_model(folder, config=config)
    else:
        make_model(folder, config=config, chat_template=None)
    plan = prepare_compute(blas="off", dequantize="off", cache=folder / "cache", environ={})
    return Engine(
        lambda: load(
            folder, model_id="tiny", plan=plan, defaults=SamplingParams(), memory_budget_gb=1.0
        )
    )


def test_a_model_answers_as_itself_every_time(engine: Engine) -> None:
    first, second = ask(engine, tokens=8), ask(engine, tokens=8)
    assert first == second
    assert [len(tokens) for tokens in first.texts] == [8] * len(QUESTIONS)
    assert first.json_valid == first.calls_valid == 0  # it is random
    found = compare_answers(first, second, tokens=8)
    assert found.splits == (None,) * len(QUESTIONS)
    changed = [list(tokens) for tokens in first.texts]
    changed[1][5] += 1
    other = Answers(texts=tuple(map(tuple, changed)), json_valid=1, calls_valid=2, calls_repaired=1)
    found = compare_answers(first, other, tokens=8)
    assert found.splits == (None, 5, *[None] * (len(QUESTIONS) - 2))
    assert (found.original.json_valid, found.model.json_valid) == (0, 1)


def test_what_cannot_be_asked_is_said(tmp_path: Path) -> None:
    with _engine(tmp_path / "plain", llama_config(), template=False) as plain:
        found = ask(plain, tokens=4)
        assert (found.json_valid, found.calls_valid) == (None, None)
        assert found.notes == (
            "The model has no chat template: JSON and tool calls were not asked for.",
        )
    with _engine(tmp_path / "short", llama_config()) as short:
        found = ask(short, tokens=4)
        assert (found.json_valid, found.calls_valid) == (0, None)
        assert "maximum context length" in found.notes[0]
