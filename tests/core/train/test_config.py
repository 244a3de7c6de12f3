"""What a training's configuration takes and refuses."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from core.errors import NotFound, UsageProblem
from core.fields import read_table_file
from core.train.config import (
    TABLE,
    TrainConfig,
    config_as_json,
    make_config,
    require_paths,
)


def test_defaults_are_those_of_the_wire() -> None:
    config = make_config({})
    assert (config.method, config.rank, config.scale, config.iters) == ("sft", 16, 20.0, 300)
    assert (config.learning_rate, config.max_seq_length, config.batch_size) == (2e-4, 2048, 1)
    assert (config.dpo_beta, config.orpo_lambda, config.orpo_fused_ce) == (0.1, 0.1, True)


def test_every_field_has_a_meaning() -> None:
    assert all(TABLE.help(field.name).endswith(".") for field in fields(TrainConfig))


@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".json"])
def test_files_say_the_same(tmp_path: Path, suffix: str) -> None:
    text = {
        ".toml": 'rank = 8\nlearning_rate = 1e-4\ntarget_modules = ["q_proj"]\nrs_lora = true\n',
        ".yaml": "rank: 8\nlearning_rate: 1e-4\ntarget_modules: [q_proj]\nrs_lora: true\n",
        ".json": '{"rank": 8, "learning_rate": 1e-4, "target_modules": "q_proj", "rs_lora": true}',
    }[suffix]
    file = tmp_path / f"train{suffix}"
    file.write_text(text)
    config = make_config(read_table_file(file))
    assert (config.rank, config.learning_rate, config.rs_lora) == (8, 1e-4, True)
    assert config.target_modules == ("q_proj",)


def test_later_layers_win() -> None:
    config = make_config({"rank": 4, "iters": 7}, {"rank": 8, "iters": None})
    assert (config.rank, config.iters) == (8, 7)


def test_comes_back_from_json() -> None:
    config = make_config({"rank": 3, "target_modules": "q_proj,v_proj", "data_dir": "d"})
    assert make_config(json.loads(json.dumps(config_as_json(config)))) == config
    assert set(config_as_json(config)) == set(TABLE.names)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"rank": 0}, "rank must be a whole number from 1 to 4096, not 0."),
        ({"rank": 1.5}, "rank must be a whole number"),
        ({"rank": True}, "rank must be a whole number"),
        ({"learning_rate": "fast"}, "learning_rate must be a number from 0 to 10, not 'fast'."),
        ({"learning_rate": float("nan")}, "learning_rate must be a number"),
        ({"method": "rl"}, "method must be one of sft, dpo, orpo, not 'rl'."),
        ({"sft_scope": "half"}, "sft_scope must be one of full, response"),
        ({"rs_lora": 1}, "rs_lora must be true or false, not 1."),
        ({"target_modules": []}, "target_modules must be a list of names"),
        ({"data_dir": ""}, "data_dir must be a text"),
        ({"ranks": 3}, "A training has no field 'ranks'"),
        ({"dpo_beta": 0.2}, "dpo_beta belongs to the method dpo, and the method is sft."),
        ({"method": "dpo", "sft_scope": "full"}, "sft_scope belongs to sft and orpo"),
        ({"sft_warmup_iters": 300}, "sft_warmup_iters must be less than iters"),
        ({"mlp_split": True, "lora_dropout": 0.1}, "do not go together"),
        ({"grad_checkpoint": True, "segment_size": 2}, "two ways to do the same"),
        (
            {"method": "orpo", "orpo_fused_ce": False, "orpo_chunk_size": 8},
            "orpo_chunk_size does nothing",
        ),
        ({"method": "orpo", "orpo_fused_ce": False, "chunk_size": 8}, "chunk_size does nothing"),
        (
            {"method": "orpo", "orpo_chunk_size": 8, "chunk_size": 8},
            "chunk_size does nothing beside orpo_chunk_size",
        ),
        (
            {"save_checkpoints": False, "steps_per_save": 2},
            "steps_per_save does nothing without save_checkpoints",
        ),
    ],
)
def test_says_which_field_is_wrong(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        make_config(values)
    assert told in problem.value.message


def test_names_the_place() -> None:
    with pytest.raises(UsageProblem, match=r"^--lora-dropout must be a number from 0 to 0.95"):
        make_config({"lora_dropout": 2}, where=("--{}",))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_table_file(tmp_path / "none.toml")
    for name, text in (("a.toml", "rank ="), ("a.yaml", "- 1"), ("a.ini", ""), ("a.json", "[")):
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageProblem):
            read_table_file(tmp_path / name)


def test_scope_follows_the_method() -> None:
    assert make_config({}).response_only
    assert not make_config({"method": "orpo"}).response_only
    assert make_config({"method": "orpo", "sft_scope": "response"}).response_only


def test_requires_paths() -> None:
    with pytest.raises(UsageProblem, match="adapter_path"):
        require_paths(make_config({"model_dir": "m", "data_dir": "d"}))


@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".json"])
def test_files_of_rubbish(tmp_path: Path, suffix: str) -> None:
    for content in (
        {
            ".toml": "rank = 4\nrank = 5",
            ".yaml": "rank: 4\nrank: 5",
            ".json": '{"rank":4,"rank":5}',
        },
        {".toml": "a = " + "[" * 9999, ".yaml": "[" * 9999, ".json": "[" * 99999},
    ):
        file = tmp_path / f"bad{suffix}"
        file.write_text(content[suffix])
        with pytest.raises(UsageProblem):
            read_table_file(file)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "train.toml"
    file.write_bytes(b"\xef\xbb\xbfrank = 8\n")
    assert read_table_file(file) == {"rank": 8}


def test_names_what_was_meant_and_where() -> None:
    with pytest.raises(UsageProblem) as caught:
        make_config({"learning-rate": 1}, where=("{} in a{b}.toml",))
    assert "no field 'learning-rate' in a{b}.toml." in caught.value.message
    assert caught.value.hint == "Did you mean learning_rate?"
    with pytest.raises(UsageProblem, match="must be a text"):
        make_config({"adapter_path": "a\ud800b"})
