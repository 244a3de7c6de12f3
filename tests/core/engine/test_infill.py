"""Gaps in texts, in the form that models expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.engine.infill import _FORMATS, InfillFormat, find_infill, infill_tokens
from core.engine.request import GenerationRequest, SamplingParams, TextPrompt
from core.errors import ContextTooLong
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.test_engine import finish
from tests.tiny import SPECIAL, llama_config, make_model, write_tokenizer

QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
MARKS = {mark: 1000 + n for n, mark in enumerate(sorted({m for f in _FORMATS for m in f.marks}))}


def _encode(text: str) -> list[int]:
    return list(text.encode())


@pytest.mark.parametrize("form", _FORMATS, ids=lambda form: form.prefix)
def test_every_form_is_found_by_its_marks(form: InfillFormat) -> None:
    vocabulary = {mark: MARKS[mark] for mark in form.marks}
    assert find_infill(vocabulary.get) is form
    del vocabulary[form.suffix]
    assert find_infill(vocabulary.get) is None


def test_the_order_of_prefix_and_suffix() -> None:
    made = {
        form.prefix: infill_tokens("a", "b", form, encode=_encode, token_id=MARKS.get)
        for form in _FORMATS
    }
    prefix, suffix, middle = (MARKS[mark] for mark in QWEN)
    assert made["<|fim_prefix|>"] == [prefix, 97, suffix, 98, middle]
    assert made["[PREFIX]"] == [MARKS["[SUFFIX]"], 98, MARKS["[PREFIX]"], 97]
    assert made["<[fim-prefix]>"][-1] == MARKS["<[fim-middle]>"]
    assert made["<[fim-prefix]>"][0] == MARKS["<[fim-suffix]>"]


def test_a_suffix_goes_without_the_space_that_a_tokenizer_puts_before_texts() -> None:
    form = next(form for form in _FORMATS if form.spaced)

    def encode(text: str) -> list[int]:
        return [0, *text.encode()]

    tokens = infill_tokens("a", "b", form, encode=encode, token_id=MARKS.get)
    assert tokens == [MARKS[form.prefix], 0, 97, MARKS[form.suffix], 98, MARKS["▁<MID>"]]


@pytest.fixture
def infilling(tmp_path: Path) -> Path:
    special = (*SPECIAL, *QWEN)
    config = llama_config(vocab_size=256 + len(special))
    folder = make_model(tmp_path / "infill", config=config)
    write_tokenizer(folder, chat_template=None, special=special)
    return folder


def _ask(prompt: TextPrompt) -> GenerationRequest:
    return GenerationRequest(
        prompt=prompt, sampling=SamplingParams(temperature=0.0), max_tokens=12, logprobs=0
    )


def test_a_gap_is_filled_as_if_the_marks_were_written(
    open_tiny: OpenEngine, infilling: Path
) -> None:
    engine = open_tiny(infilling)
    asked = engine.submit(_ask(TextPrompt(text="def f", suffix="return")))
    written = f"{QWEN[0]}def f{QWEN[1]}return{QWEN[2]}"
    by_hand = engine.submit(_ask(TextPrompt(text=written)))
    assert asked.warnings == ()
    assert asked.prompt_tokens == by_hand.prompt_tokens == len("def f") + len("return") + 3
    text, end = finish(asked)
    assert finish(by_hand)[0].startswith(text)
    assert end.usage.completion_tokens > 0


def test_a_gap_that_cannot_be_filled_is_warned_of(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    asked = engine.submit(_ask(TextPrompt(text="def f", suffix="return")))
    assert asked.warnings == ("suffix ignored: the model has no fill-in-the-middle tokens",)
    assert finish(asked)[0] == finish(engine.submit(_ask(TextPrompt(text="def f"))))[0]


def test_marks_beyond_the_model_are_none(open_tiny: OpenEngine, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "short", config=llama_config())  # 259 rows
    write_tokenizer(
        folder, chat_template=None, special=(*SPECIAL, *QWEN)
    )  # the marks have the ids 259 to 261
    prompt = TextPrompt(text="a", suffix="b")
    generation = open_tiny(folder).submit(
        GenerationRequest(prompt=prompt, sampling=SamplingParams(temperature=0.0), max_tokens=2)
    )
    assert generation.prompt_tokens == 1
    assert generation.warnings == ("suffix ignored: the model has no fill-in-the-middle tokens",)
    finish(generation)


def test_a_gap_must_fit_the_context(open_tiny: OpenEngine, infilling: Path) -> None:
    with pytest.raises(ContextTooLong):
        open_tiny(infilling).submit(_ask(TextPrompt(text="a" * 300, suffix="b" * 300)))
