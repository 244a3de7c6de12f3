"""The tokenizer, chat template and generation defaults, rebuilt from GGUF metadata.

Two models: `gpt2`, byte-level BPE with its merges and a named way to cut words first (`words`), and
`llama`, SentencePiece BPE whose merges follow from the scores. Writes the three JSON files that a
Hugging Face tokenizer reads. Knows no weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import BadModelFiles
from core.registry.gguf.container import HINT
from core.registry.gguf.metadata import architecture
from core.registry.gguf.words import CUTTINGS, Cutting, byte_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.registry.gguf.container import GgufFile

_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
MAX_PIECE = 1024  # characters of one token; the longest in use are near 128
MAX_LETTERS = 2**23  # characters of all tokens; the largest vocabularies have some 2**21

# Control tokens that end a turn or a text, whatever the file calls its one end token.
_ENDINGS = frozenset({"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>",
                      "<|end|>", "<end_of_turn>", "</s>"})  # fmt: skip
_PHI3_PLAIN = ("<unk>", "<s>", "<|endoftext|>")  # special tokens that leave the space behind them
_SAMPLING = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"}


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokens of a file and the roles of some."""

    tokens: tuple[str, ...]
    """Text by id, each once."""
    kinds: tuple[int, ...]
    """GGUF's kind by id; empty where the file tells none."""
    unknown: int | None
    """Id of the unknown token."""
    bos: int | None
    """Id that starts a text."""
    eos: int | None
    """Id that ends one."""
    padding: int | None
    """Id that fills up."""
    add_bos: bool
    """Whether a text is encoded with `bos` before it."""
    add_eos: bool
    """Whether a text is encoded with `eos` behind it."""


def build_tokenizer(gguf: GgufFile, *, rows: int, context: int) -> dict[str, Any]:
    """Return the tokenizer's files by name: JSON documents, and the chat template as text.

    Args:
        gguf: the file.
        rows: rows of the embedding, which bound the ids.
        context: longest sequence, in tokens.

    Raises:
        BadModelFiles: a tokenizer of another kind, or one whose parts do not fit together.
    """
    vocabulary = _read_vocabulary(gguf, rows)
    kind = _model(gguf)
    if kind == "gpt2":
        parts = _byte_level_parts(gguf, vocabulary)
    elif kind == "llama":
        parts = _sentencepiece_parts(gguf, vocabulary)
    else:
        raise BadModelFiles(
            f"{gguf.path.name} has a tokenizer of kind {kind!r:.40}, and mlxbun imports gpt2 and"
            " llama.",
            hint="Use a repository in MLX's own format for this model.",
        )
    files: dict[str, Any] = {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": list(_added_tokens(vocabulary, strips=_strips(gguf))),
            "post_processor": _post_processor(vocabulary),
            **parts,
        },
        "tokenizer_config.json": _tokenizer_config(vocabulary, context),
        "generation_config.json": _generation_config(gguf, vocabulary),
    }
    template = gguf.metadata.get("tokenizer.chat_template")
    if isinstance(template, str) and template:
        files["chat_template.jinja"] = template
    return files


def spare_templates(gguf: GgufFile) -> list[str]:
    """Return the names of the file's chat templates beside the default one, which are left out."""
    start = "tokenizer.chat_template."
    return sorted(key.removeprefix(start) for key in gguf.metadata if key.startswith(start))


def _read_vocabulary(gguf: GgufFile, rows: int) -> Vocabulary:
    tokens = _texts(gguf, "tokens")
    if len(tokens) > rows:
        raise _refuse(gguf, f"has {len(tokens)} tokens and {rows} embeddings")
    if len(set(tokens)) != len(tokens):
        raise _refuse(gguf, "names a token twice")
    if max(map(len, tokens), default=0) > MAX_PIECE:
        raise _refuse(gguf, f"has a token of more than {MAX_PIECE} characters")
    if sum(map(len, tokens)) > MAX_LETTERS:
        raise _refuse(gguf, f"has tokens of more than {MAX_LETTERS} characters together")
    kinds = gguf.metadata.get("tokenizer.ggml.token_type", ())
    if not isinstance(kinds, tuple) or len(kinds) not in (0, len(tokens)):
        raise _refuse(gguf, "has another number of token kinds than of tokens")
    cutting = CUTTINGS.get(_way(gguf))
    starts = _model(gguf) == "llama" or (cutting is not None and cutting.starts)
    add_bos = gguf.metadata.get("tokenizer.ggml.add_bos_token", starts)
    return Vocabulary(
        tokens=tokens,
        kinds=kinds,
        unknown=_token_id(gguf, "unknown", len(tokens)),
        bos=_token_id(gguf, "bos", len(tokens)),
        eos=_token_id(gguf, "eos", len(tokens)),
        padding=_token_id(gguf, "padding", len(tokens)),
        add_bos=add_bos is True,
        add_eos=gguf.metadata.get("tokenizer.ggml.add_eos_token") is True,
    )


def _byte_level_parts(gguf: GgufFile, vocabulary: Vocabulary) -> dict[str, Any]:
    ids = {text: index for index, text in enumerate(vocabulary.tokens)}
    merges = [merge.split(" ") for merge in _texts(gguf, "merges")]
    for pair in merges:
        if len(pair) != 2 or pair[0] not in ids or pair[1] not in ids or "".join(pair) not in ids:
            raise _refuse(gguf, f"has the merge {' '.join(pair)!r:.40}, which its tokens lack")
    cutting = _cutting(gguf)
    return {
        "normalizer": {"type": "NFC"} if cutting.composes else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(cutting.cutters)},
        "decoder": byte_level(use_regex=True),
        "model": _bpe(ids, merges, ignore_merges=cutting.whole_words),
    }


def _model(gguf: GgufFile) -> Any:
    return gguf.metadata.get("tokenizer.ggml.model")


def _way(gguf: GgufFile) -> str:
    return str(gguf.metadata.get("tokenizer.ggml.pre", "default"))


def _cutting(gguf: GgufFile) -> Cutting:
    if (found := CUTTINGS.get(_way(gguf))) is not None:
        return found
    raise BadModelFiles(
        f"{gguf.path.name} cuts words in the way {_way(gguf)!r:.40}, which mlxbun cannot import.",
        hint="Use a repository in MLX's own format for this model.",
    )


def _sentencepiece_parts(gguf: GgufFile, vocabulary: Vocabulary) -> dict[str, Any]:
    scores = gguf.metadata.get("tokenizer.ggml.scores")
    if (
        not isinstance(scores, tuple)
        or len(scores) != len(vocabulary.tokens)
        or not all(isinstance(score, float) and math.isfinite(score) for score in scores)
    ):
        raise _refuse(gguf, "has no score for every token")
    if _BYTE not in vocabulary.kinds:
        raise _refuse(gguf, "has a SentencePiece tokenizer without byte tokens")
    ids = {text: index for index, text in enumerate(vocabulary.tokens)}
    prefix = gguf.metadata.get("tokenizer.ggml.add_space_prefix", True) is True
    first = [{"type": "Prepend", "prepend": "▁"}] if prefix else []
    last = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    unknown = None if vocabulary.unknown is None else vocabulary.tokens[vocabulary.unknown]
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    model = _bpe(ids, _merges_by_score(vocabulary, scores, ids))
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*first, spaces]},
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *last],
        },
        "model": {**model, "unk_token": unknown, "fuse_unk": True, "byte_fallback": True},
    }


def _merges_by_score(
    vocabulary: Vocabulary, scores: tuple[Any, ...], ids: dict[str, int]
) -> list[list[str]]:
    """Return the pairs whose join is a token, the best score first, as SentencePiece joins."""
    ranked = []
    for index, text in enumerate(vocabulary.tokens):
        if vocabulary.kinds[index] in (_UNKNOWN, _CONTROL, _BYTE):
            continue
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in ids and right in ids:
                ranked.append((-scores[index], index, ids[left], left, right))
    return [[left, right] for *_, left, right in sorted(ranked)]


def _bpe(
    ids: dict[str, int], merges: list[list[str]], *, ignore_merges: bool = False
) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": ignore_merges,
        "vocab": ids,
        "merges": merges,
    }


def _strips(gguf: GgufFile) -> bool:
    """Return whether special tokens take the space behind them: a file does not say, Phi-3's do."""
    return architecture(gguf) == "phi3" and _model(gguf) == "llama"


def _added_tokens(vocabulary: Vocabulary, *, strips: bool) -> Iterator[dict[str, Any]]:
    for index, kind in enumerate(vocabulary.kinds):
        if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED):
            yield {
                "id": index,
                "content": vocabulary.tokens[index],
                "single_word": False,
                "lstrip": False,
                "rstrip": strips and vocabulary.tokens[index] not in _PHI3_PLAIN,
                "normalized": False,
                "special": kind != _USER_DEFINED,
            }


def _post_processor(vocabulary: Vocabulary) -> dict[str, Any] | None:
    """Put BOS before and EOS behind a text where the file asks for it."""
    before = vocabulary.bos if vocabulary.add_bos else None
    behind = vocabulary.eos if vocabulary.add_eos else None
    used = [index for index in (before, behind) if index is not None]
    if not used:
        return None

    def pieces(letter: str, segment: int) -> list[dict[str, Any]]:
        text = {"Sequence": {"id": letter, "type_id": segment}}
        return [*special(before, segment), text, *special(behind, segment)]

    def special(index: int | None, segment: int) -> list[dict[str, Any]]:
        if index is None:
            return []
        return [{"SpecialToken": {"id": vocabulary.tokens[index], "type_id": segment}}]

    names = {vocabulary.tokens[index]: index for index in used}
    return {
        "type": "TemplateProcessing",
        "single": pieces("A", 0),
        "pair": [*pieces("A", 0), *pieces("B", 1)],
        "special_tokens": {
            name: {"id": name, "ids": [index], "tokens": [name]} for name, index in names.items()
        },
    }


def _tokenizer_config(vocabulary: Vocabulary, context: int) -> dict[str, Any]:
    roles = {
        "unk_token": vocabulary.unknown,
        "bos_token": vocabulary.bos,
        "eos_token": vocabulary.eos,
        "pad_token": vocabulary.padding,
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": vocabulary.add_bos,
        "add_eos_token": vocabulary.add_eos,
        **{role: vocabulary.tokens[index] for role, index in roles.items() if index is not None},
    }


def _generation_config(gguf: GgufFile, vocabulary: Vocabulary) -> dict[str, Any]:
    count = len(vocabulary.tokens)
    named = [_token_id(gguf, role, count) for role in ("eos", "eot", "eom")]
    controls = (index for index, kind in enumerate(vocabulary.kinds) if kind == _CONTROL)
    known = [index for index in controls if vocabulary.tokens[index] in _ENDINGS]
    # The file's own end token first: a reader that takes one takes that.
    endings = list(dict.fromkeys(index for index in (*named, *known) if index is not None))
    if not endings:
        raise _refuse(gguf, "has no token that ends an answer")
    roles = {"bos_token_id": vocabulary.bos, "pad_token_id": vocabulary.padding}
    config: dict[str, Any] = {role: index for role, index in roles.items() if index is not None}
    config["eos_token_id"] = endings
    for key, name in _SAMPLING.items():
        value = gguf.metadata.get(f"general.sampling.{key}")
        # NaN and the like have no place in JSON.
        if isinstance(value, int | float) and math.isfinite(value):
            config[name] = value
    return config


def _token_id(gguf: GgufFile, role: str, count: int) -> int | None:
    value = gguf.metadata.get(f"tokenizer.ggml.{role}_token_id")
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < count:
        raise _refuse(gguf, f"names token {value!r:.40} as {role}, and has {count} tokens")
    return value


def _texts(gguf: GgufFile, key: str) -> tuple[str, ...]:
    value = gguf.metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, tuple) or not value or not isinstance(value[0], str):
        raise _refuse(gguf, f"has no list 'tokenizer.ggml.{key}'")
    return value


def _refuse(gguf: GgufFile, what: str) -> BadModelFiles:
    return BadModelFiles(f"{gguf.path.name} {what}.", hint=HINT)
