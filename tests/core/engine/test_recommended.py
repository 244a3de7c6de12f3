"""generation_config.json: which of its keys count, and that no file of that name can do harm."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.engine.events import Finished, TextDelta
from core.engine.recommended import NAME, Recommended, read_recommended
from core.engine.request import GenerationRequest, SamplingParams, TextPrompt
from core.errors import BadModelFiles
from tests.cases import round_2
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.test_loader import load_tiny
from tests.tiny import make_model


def _read(folder: Path, text: str | bytes) -> Recommended:
    raw = text if isinstance(text, bytes) else text.encode()
    (folder / NAME).write_bytes(raw)
    return read_recommended(folder)


def test_without_a_file_nothing_is_recommended(tmp_path: Path) -> None:
    assert read_recommended(tmp_path) == Recommended()


def test_every_sampling_key_counts(tmp_path: Path) -> None:
    given = {
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20.0,
        "min_p": 0.05,
        "repetition_penalty": 1.05,
        "presence_penalty": 1.5,
        "frequency_penalty": -0.5,
        "xtc_probability": 0.5,
        "xtc_threshold": 0.1,
    }
    noise = {"eos_token_id": [1, 2], "max_new_tokens": 2048, "do_sample": True, "typical_p": 1.0}
    found = _read(tmp_path, json.dumps(given | noise))
    assert found == Recommended(sampling=SamplingParams(**(given | {"top_k": 20})))  # type: ignore[arg-type]


def test_an_author_who_does_not_sample_is_greedy(tmp_path: Path) -> None:
    found = _read(tmp_path, '{"do_sample": false, "temperature": 0.9, "top_p": 0.5}')
    assert found.sampling == SamplingParams(temperature=0.0, top_p=0.5)
    assert _read(tmp_path, '{"do_sample": null}').sampling == SamplingParams()


def test_a_penalty_of_zero_is_off(tmp_path: Path) -> None:
    found = _read(tmp_path, '{"repetition_penalty": 0}')
    assert found == Recommended(sampling=SamplingParams(repetition_penalty=0.0))


@pytest.mark.parametrize(
    "value",
    ["1e400", "-1e400", "NaN", "-1", "1" + "0" * 400, "true", '"40"', "[40]", "{}", "2.5", "1e300"],
)
def test_a_value_that_cannot_be_used_is_left_out_and_said(tmp_path: Path, value: str) -> None:
    found = _read(tmp_path, f'{{"top_k": {value}, "temperature": 0.5}}')
    assert found.sampling == SamplingParams(temperature=0.5)
    (note,) = found.notes
    assert "top_k must be an integer from 0 to" in note
    assert len(note) < 200


def test_what_is_not_applied_is_said(tmp_path: Path) -> None:
    found = _read(tmp_path, '{"num_beams": 4, "suppress_tokens": [], "typical_p": 0.9}')
    assert found.sampling == SamplingParams()
    assert [note.split()[2] for note in found.notes] == ["typical_p,", "num_beams,"]


def test_lengths_and_forced_tokens_that_are_not_applied_are_said(tmp_path: Path) -> None:
    given = {"min_new_tokens": 5, "min_length": 0, "stop_strings": ["a"], "forced_eos_token_id": 2}
    notes = _read(tmp_path, json.dumps(given)).notes
    assert [note.split()[2] for note in notes] == [
        "min_new_tokens,", "forced_eos_token_id,", "stop_strings,",
    ]  # fmt: skip


def test_text_that_is_not_json_is_ignored_and_said(tmp_path: Path) -> None:
    assert _read(tmp_path, "{").notes == (f"{NAME} is not JSON and is ignored.",)


@pytest.mark.parametrize(
    "text",
    [b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b" " * 2**20 + b"{}", b"1" * 5000],
    ids=lambda text: repr(text[:8]),
)
def test_a_file_that_mlx_lm_fails_at_is_refused_by_name(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(BadModelFiles, match=NAME) as refusal:
        _read(tmp_path, text)
    assert refusal.value.hint


@pytest.mark.parametrize("name", [NAME, "config.json", "tokenizer.json", "chat_template.jinja"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, name: str) -> None:
    folder = make_model(tmp_path)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(BadModelFiles, match=name):
        load_tiny(folder)


@pytest.mark.parametrize("case", round_2("model-file"), ids=str)
def test_model_file_cases(tmp_path: Path, case: dict[str, Any]) -> None:
    folder = make_model(tmp_path)
    file = folder / case["file"]
    if case.get("as") == "FIFO":
        os.mkfifo(file)
        with pytest.raises(BadModelFiles, match=case["file"]):
            load_tiny(folder)
    else:
        file.write_text(case["text"])
        assert any(case["file"] in note for note in load_tiny(folder).info.notes)


@pytest.mark.parametrize("case", round_2("generation-config"), ids=str)
def test_generation_config_cases(
    tmp_path: Path, open_tiny: OpenEngine, case: dict[str, Any]
) -> None:
    plain = open_tiny(make_model(tmp_path / "plain"))
    told = open_tiny(make_model(tmp_path / "told", generation_config=case["set"]))
    explicit = SamplingParams(temperature=0.0, **case["set"])
    greedy = SamplingParams(temperature=0.0)
    assert _answer(told, greedy) == _answer(plain, explicit) != _answer(plain, greedy)


def _answer(engine: Any, sampling: SamplingParams) -> str:
    request = GenerationRequest(
        prompt=TextPrompt(text="abcabcabc"), sampling=sampling, max_tokens=24
    )
    *events, last = engine.submit(request)
    assert isinstance(last, Finished)
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_what_was_chosen_is_kept_apart_from_ours(tmp_path: Path) -> None:
    folder = make_model(tmp_path, generation_config={"top_p": 0.9})
    info = load_tiny(folder, defaults=SamplingParams(temperature=0.2)).info
    assert info.chosen_defaults == SamplingParams(temperature=0.2, top_p=0.9)
