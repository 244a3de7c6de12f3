"""`mlxbun eval` as a process: what it shows, keeps and refuses, and when it fails."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.evals.record import Record, Source, read_record, write_record
from core.evals.table import ProofTable
from core.figures import FigureStore
from tests.core.evals.models import flip_scale
from tests.processes import environ_of, mlxbun
from tests.tiny import llama_config, make_model

Environ = dict[str, str]
COMMIT = "5" * 40


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with a model in its cache, and a quantization of it beside it."""
    folder = tmp_path_factory.mktemp("home")
    repository = folder / ".cache/huggingface/hub/models--org--base"
    make_model(repository / "snapshots" / COMMIT, seed=3)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(COMMIT)
    make_model(folder / "packed", seed=3, bits=6)
    return folder


@pytest.fixture(scope="module")
def environ(home: Path) -> Environ:
    return environ_of(home)


@pytest.fixture(scope="module")
def compared(home: Path, environ: Environ) -> dict[str, Any]:
    """Return what comparing the two says as JSON."""
    words = ("org/base", str(home / "packed"), "--max-tokens", "4", "--json")
    done = mlxbun("eval", *words, environ=environ)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture
def published(home: Path, compared: dict[str, Any]) -> Path:
    """Return the quantization with a record of what was measured."""
    table = msgspec.convert(compared["table"], ProofTable)
    original, packed = table.entries
    table = replace(table, entries=(original, replace(packed, role="uniform")))
    record = Record(
        source=Source(model_id="org/base", revision=COMMIT),
        recipe={"bits": 6},
        calibration=None,
        table=table,
    )
    folder = home / "published"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home / "packed", folder)
    write_record(folder, record)
    return folder


def _edit(folder: Path, **changes: float) -> None:
    """Edit claims about all tokens in a published record."""
    record = read_record(folder)
    assert record is not None
    assert record.table is not None
    original, packed = record.table.entries
    packed = replace(packed, overall=replace(packed.overall, **changes))  # type: ignore[arg-type]
    write_record(folder, replace(record, table=replace(record.table, entries=(original, packed))))


def test_a_comparison_is_shown_and_kept(home: Path, compared: dict[str, Any]) -> None:
    original, packed = compared["table"]["entries"]
    assert (original["name"], original["role"]) == ("org/base", "original")
    assert packed["name"] == compared["model"] == "packed"
    assert packed["overall"]["kl"] > 1e-3
    assert set(packed["domains"]) == {"prose", "code", "chat", "tools", "scripts", "maths"}
    assert sum(part["tokens"] for part in packed["domains"].values()) == packed["overall"]["tokens"]
    assert packed["overall"]["tokens"] >= 8192
    assert len(compared["answers"]["splits"]) == 6
    assert compared["answers"]["original"]["json_valid"] == 0
    assert compared["answers"]["original"]["calls_valid"] is None  # its context is too short
    kept = FigureStore(home / ".mlxbun/bench.db").evaluations("packed")[-1]
    assert (kept.original_id, kept.original_revision) == ("org/base", COMMIT)
    assert (kept.kl, kept.agreement) == (packed["overall"]["kl"], packed["overall"]["agreement"])
    assert json.loads(kept.found)["table"]["heldout"] == compared["table"]["heldout"]


def test_limits_decide_the_exit_code_after_the_table(home: Path, environ: Environ) -> None:
    words = ("org/base", str(home / "packed"), "--no-answers", "--layer-by-layer")
    done = mlxbun("eval", *words, "--max-kl", "0", "--min-agreement", "1", environ=environ)
    assert done.returncode == 11
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["FIGURE", "org/base", "packed"]
    assert [line.split("  ")[0] for line in lines[:3]] == ["bits per weight", "size", "perplexity"]
    assert sum(line.startswith("code ") for line in lines) == 1
    assert "packed misses its limits: top-1 agreement is" in done.stderr
    assert "; mean KL is" in done.stderr


def test_a_published_table_is_measured_again(published: Path, environ: Environ) -> None:
    done = mlxbun("eval", "--verify", str(published), environ=environ)
    assert done.returncode == 0, done.stderr
    assert "claims of the table hold." in done.stderr


def test_an_edited_claim_fails(published: Path, environ: Environ) -> None:
    _edit(published, kl=0.0001)
    done = mlxbun("eval", "--verify", str(published), "--json", environ=environ)
    assert done.returncode == 11
    document = json.loads(done.stdout)
    assert document["holds"] is False
    false = [claim for claim in document["claims"] if not claim["holds"]]
    assert [(claim["name"], claim["claimed"]) for claim in false] == [("kl", 0.0001)]
    assert "The table does not hold: kl of packed is" in done.stderr


def test_a_flipped_scale_fails(published: Path, environ: Environ) -> None:
    flip_scale(published, "model.layers.0.mlp.down_proj.scales")
    done = mlxbun("eval", "--verify", str(published), environ=environ)
    assert done.returncode == 11
    assert "The table does not hold" in done.stderr


def test_the_original_has_to_be_here(published: Path, environ: Environ, home: Path) -> None:
    record = read_record(published)
    assert record is not None
    for source, said in (
        (Source(model_id="org/gone", revision=COMMIT), f"mlxbun download org/gone@{COMMIT}"),
        (Source(model_id="org/base", revision="6" * 40), f"mlxbun download org/base@{'6' * 40}"),
        (Source(model_id="mine", revision="files-0123"), "Name its folder with --original"),
    ):
        write_record(published, replace(record, source=source))
        done = mlxbun("eval", "--verify", str(published), environ=environ)
        assert done.returncode == 3, done.stderr
        assert said in done.stderr
    write_record(published, replace(record, table=None))
    assert mlxbun("eval", "--verify", str(published), environ=environ).returncode == 3
    assert mlxbun("eval", "--verify", str(home / "packed"), environ=environ).returncode == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "eval takes two models, ORIGINAL and MODEL, not 0"),
        (("a",), "eval takes two models, ORIGINAL and MODEL, not 1"),
        (("a", "b", "--verify"), "eval takes one model with --verify, not 2"),
        (("a", "b", "--original", "c"), "--original needs --verify"),
        (("a", "--verify", "--no-answers"), "--verify generates no answers"),
        (("a", "--verify", "--max-tokens", "3"), "--verify generates no answers"),
        (("a", "b", "--no-answers", "--max-tokens", "3"), "--max-tokens has no effect"),
        (("a", "b", "--min-agreement", "1.1"), "--min-agreement must be from 0 to 1"),
        (("a", "b", "--min-agreement", "nan"), "--min-agreement must be from 0 to 1"),
        (("a", "b", "--max-kl", "-1"), "--max-kl must be"),
        (("a", "b", "--max-kl", "inf"), "--max-kl must be"),
    ],
)
def test_what_does_not_go_together_is_refused(
    environ: Environ, words: tuple[str, ...], said: str
) -> None:
    done = mlxbun("eval", *words, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_models_with_other_tokenizers_are_refused(environ: Environ, tmp_path: Path) -> None:
    other = make_model(tmp_path / "other", config=llama_config(vocab_size=259))
    settings = json.loads((other / "tokenizer.json").read_text())
    vocabulary = settings["model"]["vocab"]
    first, second = list(vocabulary)[:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other / "tokenizer.json").write_text(json.dumps(settings))
    done = mlxbun("eval", "org/base", str(other), environ=environ)
    assert done.returncode == 2
    assert "org/base and other have different tokenizers" in done.stderr
