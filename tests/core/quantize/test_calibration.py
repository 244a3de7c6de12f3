"""Calibration text: mixes of ours, files of users, and what is refused before a model is loaded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.engine.tokenizer import Tokenizer
from core.errors import NotFound, UsageProblem
from core.evals import heldout
from core.evals.heldout import heldout_documents
from core.quantize.calibration import (
    LEAST_TOKENS,
    MIXES,
    calibration_rows,
    check_calibration,
)
from tests.tiny import make_model

PROSE = (
    "The ferry leaves at noon, unless the wind turns; then the captain drinks another coffee and "
    "the passengers learn the names of each other's dogs. Nobody complains. On the far shore the "
    "baker has put aside eleven loaves, one for each of those who wrote, and a twelfth in case. "
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = make_model(tmp_path_factory.mktemp("models") / "tiny")
    return Tokenizer.load(folder, eos_ids=256, shelf=None)


def write(folder: Path, rows: list[Any]) -> str:
    file = folder / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_a_mix_is_cut_by_domain(tokenizer: Tokenizer) -> None:
    mix = calibration_rows("mlxbun", tokenizer, n=0, length=256)
    assert mix.name == "mlxbun"
    assert max(map(len, mix.rows)) == 256
    assert min(map(len, mix.rows)) > 1
    assert list(dict.fromkeys(mix.domains)) == list(MIXES[1:])
    code = calibration_rows("code", tokenizer, n=0, length=256)
    assert code.rows == tuple(
        row for row, domain in zip(mix.rows, mix.domains, strict=True) if domain == "code"
    )
    assert code.digest != mix.digest


def test_some_rows_come_from_all_domains(tokenizer: Tokenizer) -> None:
    some = calibration_rows("mlxbun", tokenizer, n=7, length=256)
    assert len(some.rows) == 7
    assert set(some.domains) == set(MIXES[1:])


def test_more_rows_than_there_are_is_said(tokenizer: Tokenizer) -> None:
    mix = calibration_rows("prose", tokenizer, n=100_000, length=256)
    assert any("all of them are used, not 100000" in note for note in mix.notes)


def test_a_file_of_all_forms(tokenizer: Tokenizer, tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Ahoy?"}, {"role": "assistant", "content": PROSE}]
    file = write(
        tmp_path,
        [
            {"text": PROSE},
            {"text": PROSE, "domain": "sea"},
            {"messages": chat},
            {"prompt": "Ahoy?", "completion": PROSE},
        ],
    )
    mix = calibration_rows(file, tokenizer, n=0, length=4096)
    assert mix.domains == ("text", "sea", "chat")
    assert mix.name == "mine.jsonl"
    shown = tokenizer.decoder(["<|im_start|>"])(mix.rows[2])
    assert shown.count("<|im_start|>user\nAhoy?") == 2
    assert mix.notes == ()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "0 bytes of text"),
        ([{"text": "Too short."}], f"10 bytes of text, and at least {LEAST_TOKENS} tokens"),
        ([{"text": PROSE}, {"txt": PROSE}], "line 2: it has no 'text', no 'messages'"),
        ([{"text": PROSE}, {"text": 3}], "line 2: its 'text'"),
        ([{"text": PROSE, "domain": 3}], "its 'domain' is 3"),
        ([{"text": PROSE, "domain": "d" * 41}], "longer than 40"),
        ([{"prompt": "a", "chosen": "b", "rejected": "c"}], "preference pair"),
        ([PROSE], "line 1: it is not a JSON object"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, rows: list[Any], said: str) -> None:
    with pytest.raises(UsageProblem, match="") as caught:
        check_calibration(write(tmp_path, rows))
    assert said in caught.value.message


def test_many_broken_rows_are_counted(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"^9 rows cannot be used: .*; and 4 more\.$"):
        check_calibration(write(tmp_path, [{}] * 9))


@pytest.mark.parametrize("name", ["wikitext", "", "mlxbun2", "./prose"])
def test_an_unknown_mix_lists_the_known_ones(name: str) -> None:
    with pytest.raises(NotFound) as caught:
        check_calibration(name)
    assert all(mix in str(caught.value.hint) for mix in MIXES)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.jsonl not found"):
        check_calibration(str(tmp_path / "none.jsonl"))


def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(UsageProblem, match="not a regular file"):
        check_calibration(str(tmp_path / "pipe.jsonl"))


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    with file.open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(UsageProblem, match="more than 67"):
        check_calibration(str(file))


@pytest.mark.parametrize("index", range(0, len(heldout_documents()), 5))
def test_the_held_out_text_is_refused(tmp_path: Path, index: int) -> None:
    held_out = heldout_documents()[index]
    rows = [{"text": PROSE}, {"text": f"By the way: {held_out.plain}"}]
    with pytest.raises(UsageProblem) as caught:
        check_calibration(write(tmp_path, rows))
    assert "mine.jsonl, line 2, shares text with the held-out text" in caught.value.message


def test_the_whole_held_out_file_is_refused() -> None:
    folder = Path(heldout.__file__).parent / "texts" / "heldout"
    for file in sorted(folder.glob("*.jsonl")):
        with pytest.raises(UsageProblem, match="shares text with the held-out text"):
            check_calibration(str(file))


@pytest.mark.starter
def test_runs_of_the_models_tokens_are_refused_as_well(
    starter_folder: Path, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.load(starter_folder, eos_ids=2, shelf=None)
    # Eleven words of the held-out text, of which the tokenizer makes twenty tokens.
    file = write(tmp_path, [{"text": f'{PROSE} "2025-03-14T05:30:00+01"'}])
    check_calibration(file)
    with pytest.raises(UsageProblem, match="shares text with the held-out text"):
        calibration_rows(file, tokenizer, n=0, length=128)
