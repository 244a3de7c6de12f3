"""Rows with token ids that the model does not have are not learned from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.engine.tokenizer import Tokenizer
from core.errors import UsageProblem
from core.rows.examples import PlainText, RowProblem
from core.train.config import make_config
from core.train.data import load_dataset
from core.train.encode import Encoder
from tests.tiny import llama_config, make_model


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    """Of a model with 64 rows: `?` has one, letters have none, `!` ends a text."""
    config = llama_config(vocab_size=64)
    folder = make_model(tmp_path / "model", config=config, chat_template=None)
    return Tokenizer.load(folder, eos_ids=[33, 256], shelf=None)


def test_a_row_beyond_the_model_is_a_problem_that_names_the_ids(tokenizer: Tokenizer) -> None:
    encoder = Encoder(tokenizer, max_seq_length=100)
    found = encoder.encode(PlainText(text="1+2=3!"))
    assert max(found.tokens) < 64  # type: ignore[union-attr]
    with pytest.raises(RowProblem, match="it has the token ids 97, 98, but this model's vocab"):
        encoder.encode(PlainText(text="1+2=ab!"))


def test_data_beyond_the_model_teaches_nothing(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [{"text": "some"}, {"text": "letters"}]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageProblem, match="the ids 0 to 63"):
        load_dataset(make_config({"data_dir": str(folder)}), tokenizer)
