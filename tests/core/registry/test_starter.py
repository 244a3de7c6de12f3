"""The real starter: its own quantized weights, its words, and an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import snapshot_download
from tokenizers import Tokenizer

from core.paths import Paths
from core.registry.resolve import resolve_model

pytestmark = pytest.mark.starter


def test_it_lies_in_the_cache_like_any_other(starter_folder: Path, starter_paths: Paths) -> None:
    found = resolve_model("smollm2", hub_cache=starter_paths.hub_cache)
    assert found.folder == starter_folder
    offline = snapshot_download(
        found.model_id, cache_dir=starter_paths.hub_cache, local_files_only=True
    )
    assert offline == str(starter_folder)


def test_its_weights_are_4_bits_and_the_embedding_8(starter_folder: Path) -> None:
    config = json.loads((starter_folder / "config.json").read_text())
    assert config["quantization"] == {
        "group_size": 32,
        "bits": 4,
        "model.embed_tokens": {"group_size": 32, "bits": 8},
    }
    assert (config["rope_theta"], config["rms_norm_eps"]) == (100000.0, 1e-5)
    assert config["eos_token_id"] == [2, 0]


@pytest.mark.parametrize(
    "text",
    [
        "Hello  world 12345\n\n\tüñîcødé 日本語 🎉👩‍👩‍👧 don't",
        "   leading and trailing   ",
        "<|im_start|>user\nhi<|im_end|>",
        "def f(x):\r\n    return x  # ½ ²",
    ],
)
def test_its_tokenizer_gives_every_text_back(text: str, starter_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(starter_folder / "tokenizer.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_its_tokenizer_takes_digits_and_special_tokens_one_by_one(starter_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(starter_folder / "tokenizer.json"))
    assert tokenizer.encode("2024").tokens == ["2", "0", "2", "4"]
    assert tokenizer.encode("<|im_start|>user\nHi<|im_end|>").ids == [1, 4093, 198, 26843, 2]


def test_it_knows_the_capital_of_france(starter_folder: Path) -> None:
    import mlx.core as mx
    from mlx_lm import generate, load
    from mlx_lm.utils import dequantize_model

    model, tokenizer = load(str(starter_folder))
    model = dequantize_model(model)  # float32 products are the fast ones on a CPU
    model.set_dtype(mx.float32)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True)
    assert "Paris" in generate(model, tokenizer, prompt, max_tokens=8)
