"""Which files belong to what is uploaded."""

from __future__ import annotations

import pytest

from core.upload.belongs import Selection, reason_to_skip, reason_to_stay_out, unmatched
from core.upload.kinds import Kind

USUAL = Selection()


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "model-00001-of-00009.safetensors", "tokenizer.model",
     "chat_template.jinja", "merges.txt", "modeling_x.py", "README.md", "LICENSE", "assets/a.png",
     "model.safetensors.index.json", "mlxbun.json", "qwen.tiktoken"],
)  # fmt: skip
def test_parts_of_a_model(name: str) -> None:
    assert reason_to_skip(name, "model", USUAL) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".DS_Store", "hidden"),
        ("sub/.DS_Store", "hidden"),
        (".env", "hidden"),
        (".git/config", "the Hub takes no .git"),
        ("x/.cache/y", "the Hub takes no .cache"),
        ("__pycache__/m.cpython-311.pyc", "made by Python"),
        ("m.pyc", "made by Python"),
        ("config.json.tmp", "temporary"),
        ("model.safetensors.incomplete", "temporary"),
        ("Thumbs.db", "made by the system"),
        ("0000100_adapters.safetensors", "a checkpoint of a training"),
        ("checkpoint-500/model.safetensors", "a checkpoint of a training"),
        ("optimizer.pt", "the state of a training"),
        ("optimizer_state.safetensors", "the state of a training"),
        ("trainer_state.json", "the state of a training"),
        ("training_args.bin", "the state of a training"),
        ("rng_state.pth", "the state of a training"),
        ("wandb/run/x.json", "a log"),
        ("train.log", "a log"),
        ("pytorch_model.bin", "no file that a model is loaded from"),
        ("model.gguf", "no file that a model is loaded from"),
        ("secrets", "no file that a model is loaded from"),
        ("adapters.safetensors", "no file that a model is loaded from"),
    ],
)
def test_what_is_no_part_of_a_model(name: str, reason: str) -> None:
    assert reason_to_skip(name, "model", USUAL) == reason


def test_parts_of_other_things() -> None:
    assert reason_to_skip("adapters.safetensors", "adapter", USUAL) is None
    assert reason_to_skip("adapter_config.json", "adapter", USUAL) is None
    assert reason_to_skip("model.safetensors", "adapter", USUAL) is not None
    for name in ("train.jsonl", "data/x.parquet", "x.csv", "README.md", "audio/a.wav", "dev.json"):
        assert reason_to_skip(name, "dataset", USUAL) is None
    assert reason_to_skip("model.safetensors", "dataset", USUAL) == "no file of data"
    assert reason_to_skip("anything.at.all", "files", USUAL) is None
    assert reason_to_skip("anything.tmp", "files", USUAL) == "temporary"


def test_the_users_patterns() -> None:
    chosen = Selection(include=("*.gguf", ".gitattributes", "notes/"), exclude=("*-bad*", "old/"))
    assert reason_to_skip("a.gguf", "model", chosen) is None
    assert reason_to_skip("sub/a.gguf", "model", chosen) is None
    assert reason_to_skip(".gitattributes", "model", chosen) is None
    assert reason_to_skip("notes/x", "model", chosen) is None
    assert reason_to_skip("a-bad.gguf", "model", chosen) == "--exclude"
    assert reason_to_skip("old/config.json", "model", chosen) == "--exclude"
    assert reason_to_skip("config.json", "model", chosen) is None
    assert reason_to_skip(".git/x", "model", Selection(include=("*",))) == "the Hub takes no .git"


def test_folders_that_are_not_looked_into() -> None:
    assert reason_to_stay_out("sub", USUAL) is None
    assert reason_to_stay_out("sub/wandb", USUAL) == "a log"
    assert reason_to_stay_out(".venv", USUAL) == "hidden"
    assert reason_to_stay_out(".git", Selection(include=(".git/*",))) == "the Hub takes no .git"
    assert reason_to_stay_out("checkpoint-9", Selection(include=("*.json",))) is not None
    assert reason_to_stay_out("checkpoint-9", Selection(include=("checkpoint-9/*",))) is None
    assert reason_to_stay_out("sub", Selection(exclude=("sub/",))) == "--exclude"


def test_patterns_that_fit_nothing() -> None:
    assert unmatched(("*.json", "x*"), ["a.json", "b"]) == "x*"
    assert unmatched(("*.json",), ["sub/a.json"]) is None


@pytest.mark.parametrize(
    "name",
    [
        "id_rsa", "keys/id_ed25519.pub", "server.pem", "sign.key", "prod.env", "token", "token.txt",
        "hf_token.json", "credentials.json", "secrets.yaml", "client_secret_1.json",
    ],
)  # fmt: skip
def test_keys_stay_here(name: str) -> None:
    for kind in ("model", "adapter", "dataset", "files"):
        assert reason_to_skip(name, kind, Selection()) == "a key, or may hold one"
        assert reason_to_skip(name, kind, Selection(include=(name,))) is None


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json"]
)
def test_what_only_sounds_like_keys_is_taken(name: str) -> None:
    assert reason_to_skip(name, "model", Selection()) is None


@pytest.mark.parametrize(
    "name",
    ["openai_api_key.txt", "my_private_key.json", "aws-credentials.json", "Passwords.txt",
     "access_token.json", "my_hf_token.txt", "app_secrets.yaml", "cookies.txt"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["model", "adapter", "dataset"])
def test_files_that_may_hold_a_key(name: str, kind: Kind) -> None:
    assert reason_to_skip(name, kind, USUAL) == "a key, or may hold one"
    assert reason_to_skip(f"sub/{name}", kind, USUAL) == "a key, or may hold one"


@pytest.mark.parametrize(
    "name",
    ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"],
)
def test_tokens_of_a_vocabulary_are_no_keys(name: str) -> None:
    assert reason_to_skip(name, "model", USUAL) is None
