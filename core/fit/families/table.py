"""The table of architectures: which reader knows what mlx-lm keeps for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.errors import BadModelFiles
from core.fit.config import MOST_KINDS, MOST_TOKENS, Fields, text_fields
from core.fit.families import attention as a
from core.fit.families import recurrent as r
from core.fit.families.feeds import read_feeds
from core.fit.shapes import Feed, Layer, ModelShape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.fit.shapes import Mixer

# mlx_lm/utils.py, MODEL_REMAPPING.
_REMAPPED = {
    "mistral": "llama",
    "falcon_mamba": "mamba",
    "joyai_llm_flash": "deepseek_v3",
    "kimi_k2": "deepseek_v3",
    "qwen2_5_vl": "qwen2_vl",
    "minimax_m2": "minimax",
    "iquestcoder": "llama",
    "xverse": "llama",
    "phi-msft": "phixtral",
    "gemma4_unified": "gemma4",
}

_FULL = (
    "Klear", "apertus", "bailing_moe", "bitnet", "dots1", "ernie4_5", "ernie4_5_moe",
    "exaone", "gemma", "gemma2", "glm", "glm4", "glm4_moe", "granite", "granitemoe",
    "hunyuan_v1_dense", "internlm3", "lille-130m", "mimo", "minicpm", "minimax", "mixtral",
    "nanochat", "nemotron", "olmo2", "olmoe", "phi", "phimoe", "qwen2", "qwen2_moe",
    "qwen2_vl", "qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe", "seed_oss", "smollm3",
    "solar_open", "stablelm", "telechat3",
)  # fmt: skip
_BY_HIDDEN = (
    "cohere", "deepseek", "helium", "internlm2", "phi3", "phi3small", "starcoder2",
    "hunyuan",
)  # fmt: skip
_EVERY_HEAD = (
    "gpt2", "gpt_neox", "gptj", "olmo", "phixtral", "talkie",
)  # fmt: skip
_BY_TYPES = (
    "afmoe", "exaone_moe", "laguna", "llama", "mellum", "ministral3", "mistral3", "muse_spark",
    "pixtral", "llava",
)  # fmt: skip
_ABSORBED = (
    "deepseek_v3", "glm4_moe_lite", "kimi_k25", "kimi_vl", "mistral4",
)  # fmt: skip

_READERS: dict[str, a.Reader] = {
    **dict.fromkeys(_FULL, a.full),
    **dict.fromkeys(_BY_HIDDEN, a.by_hidden),
    **dict.fromkeys(_EVERY_HEAD, a.every_head),
    **dict.fromkeys(_BY_TYPES, a.by_types),
    **dict.fromkeys(_ABSORBED, a.absorbed),
    "afm7": a.afm7,
    "baichuan_m1": r.baichuan,
    "bailing_hybrid": r.bailing_latent,
    "bailing_moe_linear": r.bailing_linear,
    "bailing_moe_v3": r.bailing_delta,
    "cohere2": a.by_period(4, 128, 4096),
    "dbrx": a.dbrx,
    "deepseek_v2": a.expanded,
    "deepseek_v32": a.indexed,
    "exaone4": a.exaone4,
    "falcon_h1": r.falcon_h1,
    "gear": r.gear,
    "gemma3": a.gemma3,
    "gemma3_text": a.gemma3,
    "gemma3n": a.gemma3n,
    "gemma3n_text": a.gemma3n,
    "gemma4": a.gemma4,
    "gemma4_text": a.gemma4,
    "glm_moe_dsa": a.indexed,
    "gpt_bigcode": a.bigcode,
    "gpt_oss": a.alternating,
    "granitemoehybrid": r.granite_hybrid,
    "iquestloopcoder": a.loop_coder,
    "jamba": r.jamba,
    "kimi_k3": r.kimi_linear,
    "kimi_linear": r.kimi_linear,
    "lfm2": r.lfm2,
    "lfm2-vl": r.lfm2,
    "lfm2_moe": r.lfm2,
    "llama4": a.llama4,
    "llama4_text": a.full,
    "longcat_flash": a.longcat,
    "longcat_flash_ngram": a.longcat,
    "mamba": r.mamba,
    "mamba2": r.mamba2,
    "mimo_v2_flash": a.mimo_flash,
    "minicpm3": a.minicpm3,
    "minimax_m3_vl": a.minimax_m3,
    "muse_glimmer": a.three_and_one,
    "nanbeige": a.looped,
    "nemotron-nas": a.nemotron_nas,
    "nemotron_h": r.nemotron_h,
    "olmo3": a.three_and_one,
    "olmo_hybrid": r.olmo_hybrid,
    "openelm": a.openelm,
    "plamo": a.plamo,
    "plamo2": r.plamo2,
    "plamo3": a.by_period(8, 128, 2048),
    "qwen": a.qwen1,
    "qwen3_5": r.qwen_next,
    "qwen3_5_moe": r.qwen_next,
    "qwen3_next": r.qwen_next,
    "prism_hadamard_qwen35": r.qwen_next,
    "recurrent_gemma": r.recurrent_gemma,
    "rwkv7": r.rwkv7,
    "spark2_5": a.three_and_one,
    "step3p5": a.step35,
    "youtu_llm": a.expanded,
}

# Architectures with two mixers in each layer.
_PAIRED = ("baichuan_m1", "falcon_h1", "longcat_flash", "longcat_flash_ngram")
# Architectures whose layers have no feed-forward part.
_UNFED = ("mamba", "mamba2")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def read_shape(config: Mapping[str, Any], *, vocabulary: int | None = None) -> ModelShape:
    """Return what a config.json describes.

    Args:
        config: its content, a JSON object.
        vocabulary: tokens that there are when it does not tell.

    Raises:
        BadModelFiles: a field is missing, of the wrong type, or outside every sensible range.
    """
    c = text_fields(config)
    kind = _kind(config)
    reader = _READERS.get(kind)
    layers = tuple(_layers(kind, c, (reader or a.full)(c)))
    if (kinds := len(set(layers))) > MOST_KINDS:
        raise BadModelFiles(
            f"config.json describes {kinds:,} different layers, more than any model has.",
            hint="Download the model again, or check that mlx-lm can load it.",
        )
    return ModelShape(
        model_type=kind,
        hidden=a.hidden_size(c),
        vocabulary=c.whole("vocab_size", "num_vocab", default=vocabulary or 128_000),
        layers=layers,
        context_window=_context_window(c),
        known=reader is not None,
    )


def _kind(config: Mapping[str, Any]) -> str:
    """Return the architecture's name in our table: the inner one's where that is in it."""
    inner = config.get("text_config")
    names = (inner.get("model_type") if isinstance(inner, dict) else None, config.get("model_type"))
    known = [_REMAPPED.get(name, name) for name in names if isinstance(name, str)]
    return next((name for name in known if name in _READERS), known[-1] if known else "unknown")


def _layers(kind: str, c: Fields, mixers: list[Mixer]) -> list[Layer]:
    if kind == "nemotron_h":
        return _nemotron_layers(c, mixers)
    size = 2 if kind in _PAIRED else 1
    groups = [tuple(mixers[i : i + size]) for i in range(0, len(mixers), size)]
    feeds = [None] * len(groups) if kind in _UNFED else read_feeds(c, len(groups))
    return [Layer(mixers=g, feed=feed) for g, feed in zip(groups, feeds, strict=True)]


def _nemotron_layers(c: Fields, mixers: list[Mixer]) -> list[Layer]:
    """Return blocks that either mix or feed."""
    letters, rest = r.nemotron_pattern(c), iter(mixers)
    feeds = {"-": Feed(width=c.whole("intermediate_size", default=1)), "E": read_feeds(c, 1)[0]}
    return [
        Layer(mixers=(next(rest),), feed=None)
        if letter in "M*"
        else Layer(mixers=(), feed=feeds.get(letter))
        for letter in letters
    ]


def _context_window(c: Fields) -> int | None:
    """Return the tokens that a model was made for, as the engine reads it."""
    if not any(c.has(name) for name in _CONTEXT):
        return None
    return c.whole(*_CONTEXT, high=MOST_TOKENS)
