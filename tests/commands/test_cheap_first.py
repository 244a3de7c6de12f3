"""Cheap checks come before a model is loaded.

The model of these tests fails when it is loaded, so an error of another kind shows that it was not.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.core.train.runs import sums, write_rows
from tests.lora import make_adapter
from tests.processes import environ_of, mlxbun
from tests.tiny import make_model

Q = "model.layers.1.self_attn.q_proj"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the commands name."""
    place = tmp_path_factory.mktemp("cheap")
    for name, template in (("unloadable", "{{ messages }}"), ("untemplated", None)):
        model = make_model(place / name, chat_template=template)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "model_type": "nonsense"}))
    make_adapter(place / "half", changes={f"{Q}.lora_b": None})
    make_adapter(place / "flat", layers={Q: (64, 32)})
    write_rows(place / "data", sums(4))
    write_rows(place / "broken", [{"messages": []}])
    write_rows(place / "mixed", [*sums(2), {"prompt": 1, "completion": "a"}])
    (place / "taken").mkdir()
    make_adapter(place / "taken" / "there")
    (place / "grammar").write_text("root ::= (")
    (place / "file").write_text("")
    return place


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("generate unloadable hi --max-tokens 1", 7, "nonsense"),
        ("generate unloadable hi --grammar grammar", 2, "--grammar cannot be enforced: EBNF"),
        ("generate unloadable hi --regex (", 2, "--regex cannot be enforced: the regex"),
        ("generate unloadable hi --adapter half", 7, "has no lora_b"),
        ("generate unloadable hi --adapter flat", 7, "has the shape (64, 32), the layer (64, 64)"),
        ("generate untemplated hi", 2, "untemplated has no chat template"),
        ("chat untemplated", 2, "untemplated has no chat template"),
        ("chat unloadable --resume none", 3, "There is no conversation"),
        ("chat unloadable --adapter none", 3, "There is no adapter none"),
        ("serve unloadable --adapter none", 3, "There is no adapter none"),
        ("bench unloadable --plot file/x.png", 2, "is not a folder that takes files"),
        ("perplexity unloadable --data none.jsonl", 3, "none.jsonl not found"),
        (
            "perplexity unloadable --data broken/train.jsonl",
            2,
            "train.jsonl, line 1: its 'messages'",
        ),
        ("perplexity unloadable --num-samples 0", 2, "must be -1 or at least 1"),
        ("perplexity unloadable --sequence-length 1024", 2, "is 512 tokens"),
        ("perplexity unloadable --adapter none", 3, "There is no adapter none"),
        ("train unloadable --data none --adapter-path out", 3, "train.jsonl not found"),
        ("train unloadable --data data --method dpo --adapter-path out", 2, "learns from"),
        ("train unloadable --data broken --adapter-path out", 2, "no list of messages"),
        ("train unloadable --data mixed --strict --adapter-path out", 2, "Mend them"),
        ("train unloadable --data data --early-stopping 2 --adapter-path out", 2, "early_stopping"),
        ("train unloadable --data data --adapter-path taken/there", 2, "holds an adapter already"),
        ("train unloadable --data data --adapter-path taken/there --dry-run", 2, "already"),
        (
            "train unloadable --data data --adapter-path out --warm-start-adapter half",
            7,
            "has no lora_b",
        ),
        ("fuse unloadable --adapter flat --output taken", 2, "exists already"),
        ("fuse unloadable --adapter flat --output out", 7, "has the shape"),
        ("upload none --to me/name", 6, "no Hugging Face token"),
    ],
)
def test_the_cheap_check_comes_first(
    place: Path, tmp_path: Path, words: str, code: int, said: str
) -> None:
    environ = environ_of(tmp_path / "home", HF_TOKEN="")
    done = mlxbun(*words.split(" "), environ=environ, cwd=place)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert not (place / "out").exists()


def test_a_taken_port_comes_before_the_model(place: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        words = ("serve", "unloadable", "--port", port)
        done = mlxbun(*words, environ=environ_of(tmp_path / "home"), cwd=place)
    assert (done.returncode, port in done.stderr) == (5, True), done.stderr


def test_a_checkpoint_of_another_training_comes_before_the_model(
    place: Path, tmp_path: Path
) -> None:
    model = make_model(tmp_path / "model")
    environ = environ_of(tmp_path / "home")
    words = ("train", "model", "--data", str(place / "data"), "--adapter-path", "out")
    small = ("--rank", "2", "--iters", "2", "--steps-per-save", "1")
    assert mlxbun(*words, *small, environ=environ, cwd=tmp_path).returncode == 0
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "model_type": "nonsense"}))
    again = ("--resume", "--rank", "4", "--iters", "3")
    done = mlxbun(*words, *again, environ=environ, cwd=tmp_path)
    assert (done.returncode, "with rank 2, not 4" in done.stderr) == (2, True), done.stderr
