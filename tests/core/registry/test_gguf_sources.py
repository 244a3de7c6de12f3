"""A tokenizer written as GGUF, as llama.cpp's converter does it, and rebuilt gives the same tokens.

The sources are trained here: by `tokenizers` with the expressions of published tokenizers, and by
SentencePiece.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from core.registry.gguf import prepare
from core.registry.gguf.container import GgufFile
from core.registry.gguf.tokenizer import build_tokenizer
from tests.gguf_models import as_gguf, random_model

LINES = [
    "The quick brown fox jumps over the lazy dog; it's 12345 o'clock, isn't it?",
    "def main(argv):\n    return {'a': 1, 'b': [2, 3]}  # 100% done!\n\n",
    "Größe, naïve café, Ünïcödé — “quotes” … and ¿qué?",
    "日本語のテキスト、中文文本、한국어 텍스트。",
    "CamelCaseWords HTTPServer iPhone USA's WE'LL they'll",
    "path/to/file.txt https://example.org/?q=1&r=2 \t tabs   and  spaces ",
    "👩‍👩‍👧 emoji 🎉🎉 e\u0301 combined \u200b zero",
]
TEXTS = [*LINES, " ".join(LINES), "\n".join(reversed(LINES)), "hello", " hello", "", "   ", "\n\n"]

_TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
# As published in the families' tokenizer.json.
EXPRESSIONS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + _TAIL,
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + _TAIL,
    "gpt-4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _TAIL,
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _TAIL,
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
}  # fmt: skip


def _byte_level_source(way: str) -> Tokenizer:
    source = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(EXPRESSIONS[way]), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    source.pre_tokenizer = pre_tokenizers.Sequence([cut, bytes_])
    source.decoder = decoders.ByteLevel()
    if way == "qwen2":
        source.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    source.train_from_iterator(LINES * 3, trainer)
    return source


def _rebuilt(metadata: dict[str, Any]) -> Tokenizer:
    whole = {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}
    whole["general.architecture"] = "llama"
    gguf = GgufFile(path=Path("tiny.gguf"), metadata=whole, tensors={})
    files = build_tokenizer(gguf, rows=99_999, context=99)
    return Tokenizer.from_str(json.dumps(files["tokenizer.json"]))


@pytest.mark.parametrize("way", EXPRESSIONS)
def test_byte_level_tokens_are_those_of_the_source(way: str) -> None:
    source = _byte_level_source(way)
    model = json.loads(source.to_str())["model"]
    tokens = tuple(sorted(model["vocab"], key=model["vocab"].__getitem__))
    kinds = tuple(3 if token == "<|end|>" else 1 for token in tokens)
    rebuilt = _rebuilt(
        {
            "model": "gpt2",
            "pre": way,
            "tokens": tokens,
            "token_type": kinds,
            "merges": tuple(" ".join(pair) for pair in model["merges"]),
            "eos_token_id": 0,
            "add_bos_token": False,
        }
    )
    for text in [*TEXTS, "a<|end|>b"]:
        wanted = source.encode(text).ids
        assert rebuilt.encode(text).ids == wanted, text
        assert rebuilt.decode(wanted) == source.decode(wanted)


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_tokens_are_those_of_the_source(prefix: bool) -> None:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line.strip() for line in LINES * 3),
        model_writer=written,
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=prefix,
        minloglevel=2,
    )
    source = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    ids = range(source.get_piece_size())
    rebuilt = _rebuilt(
        {
            "model": "llama",
            "tokens": tuple(source.id_to_piece(index) for index in ids),
            "scores": tuple(float(source.get_score(index)) for index in ids),
            "token_type": tuple(_kind(source, index) for index in ids),
            "bos_token_id": source.bos_id(),
            "eos_token_id": source.eos_id(),
            "unknown_token_id": source.unk_id(),
            "add_space_prefix": prefix,
            "add_bos_token": False,
        }
    )
    assert any(source.is_byte(index) for text in TEXTS for index in source.encode(text))
    for text in TEXTS:
        wanted = source.encode(text)
        assert rebuilt.encode(text).ids == wanted, text
        assert rebuilt.decode(wanted) == source.decode(wanted)


def _kind(source: Any, index: int) -> int:
    if source.is_unknown(index):
        return 2
    if source.is_control(index):
        return 3
    return 6 if source.is_byte(index) else 1


def test_special_tokens_of_phi3_take_the_space_behind_them(tmp_path: Path) -> None:
    written = as_gguf("phi3", random_model("phi3"))
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{code:02X}>" for code in range(256)), "<|user|>"]
    written.metadata |= {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, 4],
        "tokenizer.ggml.scores": [0.0] * len(pieces),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    files = prepare(written.write(tmp_path / "t.gguf")).files
    added = json.loads(files["tokenizer.json"])["added_tokens"]
    strips = {token["content"]: token["rstrip"] for token in added}
    assert strips == {"<unk>": False, "<s>": False, "</s>": True, "<|user|>": True}


def test_chat_templates_that_are_left_out_are_named(tmp_path: Path) -> None:
    written = as_gguf("qwen2", random_model("qwen2"))
    written.metadata["tokenizer.chat_template.tool_use"] = "{{ tools }}"
    prepared = prepare(written.write(tmp_path / "t.gguf"))
    assert prepared.notes[-1].endswith("left out: tool_use.")
    assert "tools" not in prepared.files["chat_template.jinja"]
