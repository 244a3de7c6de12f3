"""Tiny random models, made in a fraction of a second: a real folder, as a download would leave it.

The tokenizer is byte-level BPE without merges over all 256 bytes, so every text round-trips and
every token is one byte; special tokens follow.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EOS = 256
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")


def llama_config(**changes: Any) -> dict[str, Any]:
    """Return the config of a two-layer Llama with 259 tokens; `changes` override."""
    return {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "vocab_size": 256 + len(SPECIAL),
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "max_position_embeddings": 512,
        "eos_token_id": EOS,
        "torch_dtype": "float32",
    } | changes


def make_model(
    folder: Path,
    *,
    config: dict[str, Any] | None = None,
    seed: int = 0,
    chat_template: str | None = CHAT_TEMPLATE,
    generation_config: dict[str, Any] | None = None,
    bits: int | None = None,
) -> Path:
    """Write a random model into `folder` and return it.

    Args:
        folder: made if it is not there.
        config: what config.json says; None: `llama_config()`.
        seed: of the weights.
        chat_template: None leaves it out.
        generation_config: None leaves the file out.
        bits: quantize to this width with groups of 32, or None.
    """
    import mlx.core as mx
    from mlx import nn
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes

    config = dict(config or llama_config())
    folder.mkdir(parents=True, exist_ok=True)
    mx.random.seed(seed)
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    # Logits of the default initialization are nearly flat; wider weights make clear winners.
    spread = [
        (name, value * 4 if value.ndim > 1 else value)
        for name, value in tree_flatten(model.parameters())
    ]
    model.load_weights(spread)
    if bits:
        nn.quantize(model, group_size=32, bits=bits)
        config["quantization"] = {"group_size": 32, "bits": bits}
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))
    if generation_config is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation_config))
    write_tokenizer(folder, chat_template=chat_template)
    return folder


def byte_tokenizer(special: Sequence[str] = SPECIAL) -> Tokenizer:
    """Return a tokenizer of 256 bytes and the special tokens."""
    alphabet = _bytes_to_unicode()
    tokenizer = Tokenizer(models.BPE(vocab={c: b for b, c in alphabet.items()}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def write_tokenizer(
    folder: Path, *, chat_template: str | None, special: Sequence[str] = SPECIAL
) -> None:
    """Write the byte tokenizer's files; the first special token ends an answer."""
    byte_tokenizer(special).save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": special[0],
        "clean_up_tokenization_spaces": False,
    }
    if chat_template is not None:
        settings["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _bytes_to_unicode() -> dict[int, str]:
    """Return GPT-2's printable stand-in for each byte (openai/gpt-2, encoder.py)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_ins = {b: chr(b) for b in printable}
    rest = (b for b in range(256) if b not in stand_ins)
    return stand_ins | {b: chr(256 + i) for i, b in enumerate(rest)}
