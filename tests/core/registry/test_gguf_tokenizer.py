"""The rebuilt tokenizer cuts, merges and decodes as the file's own family does."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from core.errors import BadModelFiles
from core.registry.gguf import import_gguf
from core.registry.gguf.container import GgufFile, read_gguf
from core.registry.gguf.tokenizer import build_tokenizer
from tests.ggufs import BYTES, TinyLlama, tiny_llama

TEXTS = [
    "hello hello",
    "  two  spaces\n\n\ttab 12345",
    "üñîcødé 日本語 👩‍👩‍👧 don't",
    "<|im_start|>hello<|im_end|><|pad|>",
]


def _tokenizer(model: TinyLlama, folder: Path) -> Tokenizer:
    import_gguf(model.write(folder / "tiny.gguf"), folder)
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _json(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def _sentencepiece(pieces: dict[str, float], **metadata: Any) -> TinyLlama:
    """Make a tiny model with a SentencePiece tokenizer of these pieces."""
    model = tiny_llama(spare=16)
    bytes_ = [f"<0x{code:02X}>" for code in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, *pieces]
    kinds = [2, 3, 3, *[6] * 256, *[1] * len(pieces)]
    model.metadata |= {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": [0.0] * 259 + [float(score) for score in pieces.values()],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        **metadata,
    }
    return model


@pytest.mark.parametrize("words", ["smollm", "gpt-2", "default", "llama-bpe", "qwen2"])
@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_round_trip(words: str, text: str, tmp_path: Path) -> None:
    model = tiny_llama()
    model.metadata["tokenizer.ggml.pre"] = words
    tokenizer = _tokenizer(model, tmp_path)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_merges_and_special_tokens_are_one_id_each(tmp_path: Path) -> None:
    tokenizer = _tokenizer(tiny_llama(), tmp_path)
    encoded = tokenizer.encode("<|im_start|>hello hello<|im_end|>")
    assert encoded.tokens == ["<|im_start|>", "hello", "Ġhello", "<|im_end|>"]
    assert encoded.ids == [261, 259, 260, 262]


# What the published tokenizers of the families do, by their documented patterns.
@pytest.mark.parametrize(
    ("words", "text", "cuts"),
    [
        ("smollm", "a1234 b", ["a", "1", "2", "3", "4", " b"]),
        ("gpt-2", "a1234 b", ["a", "1234", " b"]),
        ("llama-bpe", "a1234 b", ["a", "123", "4", " b"]),
        ("qwen2", "a1234 b", ["a", "1", "2", "3", "4", " b"]),
        ("default", "a1234 b", ["a", "123", "4", " b"]),
        ("smollm", "it's  so", ["it", "'s", " ", " so"]),
        ("llama-bpe", "IT'S\n\n so", ["IT", "'S", "\n\n", " so"]),
        ("gpt-2", "IT'S so", ["IT", "'", "S", " so"]),
        ("qwen2", "(hi)!\nx", ["(hi", ")!\n", "x"]),
        ("gpt-2", "(hi)!\nx", ["(", "hi", ")!", "\n", "x"]),
    ],
)
def test_words_are_cut_as_the_family_cuts(
    words: str, text: str, cuts: list[str], tmp_path: Path
) -> None:
    model = tiny_llama()
    model.metadata["tokenizer.ggml.pre"] = words
    tokenizer = _tokenizer(model, tmp_path)
    assert tokenizer.pre_tokenizer is not None
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
    assert [text[slice(*span)] for _, span in pieces] == cuts


def test_qwen2_composes_characters(tmp_path: Path) -> None:
    model = tiny_llama()
    model.metadata["tokenizer.ggml.pre"] = "qwen2"
    tokenizer = _tokenizer(model, tmp_path)
    assert tokenizer.encode("e\u0301").ids == tokenizer.encode("\u00e9").ids


def test_llama3_takes_a_whole_word_that_is_a_token(tmp_path: Path) -> None:
    """Its tokens need not be reachable by merges."""
    model = tiny_llama()
    model.metadata |= {"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.merges": ["h e"]}
    encoded = _tokenizer(model, tmp_path).encode("hello", add_special_tokens=False)
    assert encoded.tokens == ["hello"]


@pytest.mark.parametrize(
    ("words", "told", "starts"),
    [
        ("smollm", None, False),
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("smollm", True, True),
    ],
)
def test_bos_comes_before_a_text_where_the_family_wants_it(
    words: str, told: bool | None, starts: bool, tmp_path: Path
) -> None:
    model = tiny_llama()
    model.metadata["tokenizer.ggml.pre"] = words
    if told is not None:
        model.metadata["tokenizer.ggml.add_bos_token"] = told
    ids = _tokenizer(model, tmp_path).encode("hello").ids
    assert ids == ([261] if starts else []) + [259]
    assert _json(tmp_path, "tokenizer_config.json")["add_bos_token"] is starts


def test_eos_comes_behind_a_text_when_asked_for(tmp_path: Path) -> None:
    model = tiny_llama()
    model.metadata["tokenizer.ggml.add_eos_token"] = True
    assert _tokenizer(model, tmp_path).encode("hello").ids == [259, 262]


def test_sentencepiece_round_trip_and_bytes(tmp_path: Path) -> None:
    tokenizer = _tokenizer(_sentencepiece({"▁": -3, "h": -4, "i": -5, "▁h": -1}), tmp_path)
    assert tokenizer.encode("hi", add_special_tokens=False).tokens == ["▁h", "i"]
    assert tokenizer.encode("hi").tokens == ["<s>", "▁h", "i"]
    for text in ("hi hi", " é 日本語", "h\ti"):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids) == text


def test_sentencepiece_without_a_space_in_front(tmp_path: Path) -> None:
    model = _sentencepiece({"▁": -3, "h": -4}, **{"tokenizer.ggml.add_space_prefix": False})
    tokenizer = _tokenizer(model, tmp_path)
    assert tokenizer.encode("h h", add_special_tokens=False).tokens == ["h", "▁", "h"]


_LETTERS = ["a", "b", "c", "▁"]
_PAIRS = ["".join(pair) for pair in itertools.product(_LETTERS, repeat=2)]
_POSSIBLE = [*_PAIRS, *("".join(three) for three in itertools.product("ab▁", repeat=3))]


def _more(key: str, pieces: dict[str, float]) -> tuple[Any, ...]:
    """Return what pieces add to one of the tokenizer's lists."""
    lists: dict[str, list[Any]] = {
        "tokens": [*pieces],
        "scores": [*pieces.values()],
        "token_type": [1] * len(pieces),
    }
    return tuple(lists.get(key.removeprefix("tokenizer.ggml."), ()))


def _merge_by_score(text: str, pieces: dict[str, float]) -> list[str]:
    """SentencePiece's own procedure: join the two neighbours whose join scores best, repeat."""
    parts = list(text)
    while True:
        joins = [
            (pieces[left + right], -place)
            for place, (left, right) in enumerate(itertools.pairwise(parts))
            if left + right in pieces
        ]
        if not joins:
            return parts
        place = -max(joins)[1]
        parts[place : place + 2] = ["".join(parts[place : place + 2])]


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> GgufFile:
    path = tmp_path_factory.mktemp("sentencepiece") / "tiny.gguf"
    return read_gguf(_sentencepiece({}).write(path))


@settings(max_examples=60, deadline=None)
@given(
    chosen=st.lists(st.sampled_from(_POSSIBLE), unique=True, max_size=9),
    texts=st.lists(st.text("abc ", min_size=1, max_size=12), min_size=5, max_size=10),
)
def test_sentencepiece_merges_as_its_scores_say(
    chosen: list[str], texts: list[str], model_file: GgufFile
) -> None:
    # The later ones score higher, so that the order of the ids alone would be wrong.
    pieces = {piece: float(rank) for rank, piece in enumerate([*chosen, *_LETTERS])}
    metadata = {
        key: value + extra if isinstance(value, tuple) else value
        for key, value in model_file.metadata.items()
        for extra in [_more(key, pieces)]
    }
    files = build_tokenizer(replace(model_file, metadata=metadata), rows=999, context=9)
    tokenizer = Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    for text in texts:
        spaced = "▁" + text.replace(" ", "▁")
        tokens = tokenizer.encode(text, add_special_tokens=False).tokens
        assert tokens == _merge_by_score(spaced, pieces)


@pytest.mark.parametrize("scores", [[], [1.0], ["high"] * 260, [float("nan")] * 260])
def test_a_score_is_needed_for_every_token(scores: list[Any], tmp_path: Path) -> None:
    model = _sentencepiece({"▁": -1})
    del model.metadata["tokenizer.ggml.scores"]
    model.metadata |= {"tokenizer.ggml.scores": scores} if scores else {}
    with pytest.raises(BadModelFiles, match="score"):
        _tokenizer(model, tmp_path)


def test_every_token_that_ends_a_turn_is_an_end(tmp_path: Path) -> None:
    model = tiny_llama()
    # The file's end token is another one than the template's.
    model.metadata["tokenizer.ggml.eos_token_id"] = 263
    _tokenizer(model, tmp_path)
    assert _json(tmp_path, "generation_config.json")["eos_token_id"] == [263, 262]
    assert _json(tmp_path, "config.json")["eos_token_id"] == [263, 262]


def test_no_end_is_refused(tmp_path: Path) -> None:
    model = tiny_llama()
    del model.metadata["tokenizer.ggml.eos_token_id"]
    model.metadata["tokenizer.ggml.token_type"] = [1] * (len(BYTES) + 8)
    with pytest.raises(BadModelFiles, match="ends an answer"):
        _tokenizer(model, tmp_path)


def test_sampling_defaults_come_only_from_the_file(tmp_path: Path) -> None:
    model = tiny_llama()
    _tokenizer(model, tmp_path)
    assert "temperature" not in _json(tmp_path, "generation_config.json")
    model.metadata |= {"general.sampling.temp": 0.5, "general.sampling.top_k": 20}
    _tokenizer(model, tmp_path)
    config = _json(tmp_path, "generation_config.json")
    assert (config["temperature"], config["top_k"]) == (0.5, 20)


def test_transformers_reads_template_and_roles(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    _tokenizer(tiny_llama(), tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    chat = [{"role": "user", "content": "hello"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "<|im_start|>hello<|im_end|>"
    assert tokenizer.eos_token == "<|im_end|>"
    assert tokenizer.bos_token == "<|im_start|>"
    assert tokenizer.model_max_length == 128
    assert tokenizer("hello hello").input_ids == [259, 260]
