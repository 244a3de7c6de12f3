"""Questions to a language model: on a tiny random one, and on the starter."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from core.engine.request import SamplingParams
from core.errors import AlreadyRunning, ContextTooLong, MlxbunError
from core.jobs.lease import hold_lease
from core.memory.asking import Cancelled, Question
from core.memory.local_model import (
    EngineModel,
    answer_tokens,
    open_model,
    parsed,
    shown_data,
    without_repetition,
)
from core.memory.rules import RulesModel
from core.paths import Paths
from core.settings import Settings
from tests.core.engine.conftest import OpenEngine, open_tiny, tiny_folder
from tests.core.memory.scripted import conversation, never
from tests.core.memory.test_pipeline import World
from tests.processes import environ_of
from tests.tiny import llama_config, make_model

__all__ = ["open_tiny", "tiny_folder"]  # fixtures
CLOSED = {
    "type": "object",
    "properties": {"kind": {"enum": ["person", "thing"]}, "exclusive": {"type": "boolean"}},
    "required": ["kind", "exclusive"],
    "additionalProperties": False,
}
OPEN = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 4000}},
    "required": ["text"],
    "additionalProperties": False,
}


def question(schema: dict[str, Any], **data: Any) -> Question:
    return Question(stage="extract", instructions="Say it.", data=data, schema=schema)


@pytest.fixture(scope="session")
def wide_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = llama_config(max_position_embeddings=2048)
    return make_model(tmp_path_factory.mktemp("models") / "wide", config=config)


def test_an_answer_has_the_form_of_the_schema_and_is_the_same_again(
    open_tiny: OpenEngine, wide_folder: Path
) -> None:
    model = EngineModel(open_tiny(wide_folder))
    answer = model.answer(question(CLOSED), cancelled=never)
    assert set(answer) == {"kind", "exclusive"}
    assert answer["kind"] in ("person", "thing")
    assert isinstance(answer["exclusive"], bool)
    assert model.answer(question(CLOSED), cancelled=never) == answer
    model.close()


def test_a_model_without_a_chat_template_answers_too(open_tiny: OpenEngine, tmp_path: Path) -> None:
    config = llama_config(max_position_embeddings=2048)
    folder = make_model(tmp_path / "plain", config=config, chat_template=None)
    answer = EngineModel(open_tiny(folder)).answer(question(CLOSED), cancelled=never)
    assert set(answer) == {"kind", "exclusive"}


def test_without_a_grammar_what_is_not_json_is_empty(open_tiny: OpenEngine, tmp_path: Path) -> None:
    every_letter = list(range(100, 257))  # so that it ends soon
    config = llama_config(max_position_embeddings=4096, eos_token_id=every_letter)
    folder = make_model(tmp_path / "short", config=config)
    notes: list[str] = []
    model = EngineModel(open_tiny(folder, grammar=False), on_note=notes.append)
    assert model.answer(question(CLOSED), cancelled=never) == {}
    assert len(notes) == 1  # it is said once, though it was tried twice


def test_the_grammars_of_all_stages_are_enforced(open_tiny: OpenEngine, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.hear(
        conversation(
            "My sister Ana lives in Porto. She works at Heron as a designer.",
            "My friend Benno lives in Falun, and Ana visits Benno every May. " * 40,
            "Heron is based in Delft. Heron uses Postgres.",
        )
    )
    world.run()
    world.hear(conversation("My sister Ana moved to Delft.", source="session:two"))
    world.hear(conversation("Ana prefers green tea.", source="session:three"))
    world.run()
    asked = {question.stage: question for question in world.model.asked}
    folder = make_model(tmp_path / "m", config=llama_config(max_position_embeddings=32768))
    engine = open_tiny(folder)
    model = EngineModel(engine)
    for each in asked.values():
        generation = engine.submit(model._request(each, SamplingParams()))
        generation.cancel()
        assert generation.warnings == (), each.stage
    assert {"segment", "extract", "route", "create", "section-route", "patch"} <= set(asked)


def test_what_does_not_fit_is_too_long(open_tiny: OpenEngine, wide_folder: Path) -> None:
    engine = open_tiny(wide_folder)
    model = EngineModel(engine)
    with pytest.raises(ContextTooLong):
        model.answer(question(CLOSED, text="x" * 5000), cancelled=never)
    request = model._request(question(CLOSED, text=""), SamplingParams())
    room = engine.max_context - engine.count_tokens(request.prompt)
    with pytest.raises(ContextTooLong):  # the prompt fits, but leaves too little for an answer
        model.answer(question(CLOSED, text="x" * (room - 100)), cancelled=never)
    assert model.answer(question(CLOSED, text="x" * (room - 200)), cancelled=never)


def test_an_answer_without_an_end_is_too_long(open_tiny: OpenEngine, wide_folder: Path) -> None:
    model = EngineModel(open_tiny(wide_folder))
    with pytest.raises(ContextTooLong):
        model.answer(question(OPEN), cancelled=never)


def test_cancelling_ends_an_answer_that_runs(open_tiny: OpenEngine, wide_folder: Path) -> None:
    engine = open_tiny(wide_folder)
    model = EngineModel(engine)
    wanted = threading.Event()
    timer = threading.Timer(0.2, wanted.set)
    timer.start()
    with pytest.raises(Cancelled):
        model.answer(question(OPEN), cancelled=wanted.is_set)
    timer.join()
    deadline = time.monotonic() + 10
    while engine.stats().active_rows and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not engine.stats().active_rows


def test_a_cancelled_run_asks_nothing(open_tiny: OpenEngine, wide_folder: Path) -> None:
    with pytest.raises(Cancelled):
        EngineModel(open_tiny(wide_folder)).answer(question(CLOSED), cancelled=lambda: True)


def test_its_name_tells_model_and_revision(open_tiny: OpenEngine, wide_folder: Path) -> None:
    assert EngineModel(open_tiny(wide_folder)).name.startswith("tiny@")


def test_data_is_json_in_which_nothing_looks_like_a_mark() -> None:
    data = {"text": "</data> <|im_end|> [INST] [/INST] [1, 2] [Ana]", "list": ["A"]}
    shown = shown_data(data)
    assert not re.search(r"[<\n]|\[/?INST", shown)
    assert json.loads(shown) == data


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("[1]", None),
        ("I think", None),
        ("", None),
        ("[" * 10_000, None),
    ],
)
def test_answers_are_json_objects(text: str, answer: Any) -> None:
    assert parsed(text) == answer


def paths_in(folder: Path) -> Paths:
    return Paths.from_environ({"HOME": str(folder)})


def opened(name: str, folder: Path) -> Any:
    return open_model(
        name,
        settings=Settings(),
        paths=paths_in(folder),
        environ={"HF_HUB_OFFLINE": "1"},
        on_progress=lambda _event: None,
        on_note=lambda _note: None,
    )


def test_rules_is_a_model_of_that_name(tmp_path: Path) -> None:
    assert isinstance(opened("rules", tmp_path), RulesModel)


def test_the_lease_is_held_while_the_model_is_open(tmp_path: Path, wide_folder: Path) -> None:
    lease = paths_in(tmp_path).lease_file
    model = opened(str(wide_folder), tmp_path)
    with pytest.raises(AlreadyRunning), hold_lease(lease, what="a test", on_wait=None):
        pass
    model.close()
    with hold_lease(lease, what="a test", on_wait=None), pytest.raises(AlreadyRunning):
        opened(str(wide_folder), tmp_path)


def test_the_lease_is_free_after_a_model_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(MlxbunError):
        opened("no-such-model", tmp_path)
    with hold_lease(paths_in(tmp_path).lease_file, what="a test", on_wait=None):
        pass


ASK_THE_STARTER = """
import json, os
from core.memory.asking import Question
from core.memory.local_model import open_model
from core.paths import Paths
from core.settings import Settings

model = open_model(
    "starter",
    settings=Settings(),
    paths=Paths.from_environ(os.environ),
    environ=os.environ,
    on_progress=lambda event: None,
    on_note=lambda note: None,
)
question = Question(
    stage="extract",
    instructions="Say whether the text is about a person.",
    data={"text": "My sister Ana lives in Porto."},
    schema=json.loads(os.environ["SCHEMA"]),
)
answers = [model.answer(question, cancelled=lambda: False) for _ in range(2)]
model.close()
print(json.dumps([model.name, *answers]))
"""


@pytest.mark.slow  # half a minute on a CPU
@pytest.mark.starter
def test_the_starter_answers_in_form(
    starter_folder: Path, starter_paths: Paths, tmp_path: Path
) -> None:
    hub = str(starter_paths.hub_cache)
    # A process of its own: what makes it quick on a CPU has to be there before MLX is imported.
    done = subprocess.run(
        [sys.executable, "-c", ASK_THE_STARTER],
        env=environ_of(tmp_path, HF_HUB_CACHE=hub, SCHEMA=json.dumps(CLOSED)),
        check=True,
        capture_output=True,
        text=True,
    )
    name, first, second = json.loads(done.stdout)
    assert name.endswith(f"@{starter_folder.name[:12]}")
    assert set(first) == {"kind", "exclusive"}
    assert first == second


def test_the_limit_of_an_answer_grows_with_the_question() -> None:
    short, long = question(CLOSED, text="Ana lives in Porto."), question(CLOSED, text="a " * 9_000)
    assert 256 < answer_tokens(short) < 320
    assert answer_tokens(long) == 2048


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ('{"facts":[{"a":1},{"a":1},{"a":1},{"a"', '{"facts": [{"a": 1}]}'),
        ('{"facts": [{"a":1},{"b":2},{"a":1},{"b":2},{"a":1}', '{"facts": [{"a": 1}, {"b": 2}]}'),
        ('{"facts":[{"a":1},{"a":2},{"a":3},{"a"', None),
        ('{"facts":[', None),
        ('{"text":"a a a a', None),
        ("", None),
    ],
)
def test_an_answer_that_repeats_itself_is_cut_and_another_is_too_long(
    cut: str, whole: str | None
) -> None:
    assert without_repetition(cut) == whole
