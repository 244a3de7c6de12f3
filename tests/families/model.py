"""A tiny model of a family whose answers depend on every token before them.

Default random weights hide mistakes: norms are ones, gates and decays zeros, logits flat. Here
every weight is spread until the tokens just before the last one move the logits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from core.engine.tokenizer_card import TokenizerCard
from tests.core.fit.tiny_families import build, tiny_config

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = 300  # of every tiny config; the last one is EOS
EOS = TOKENS - 1
# Every other token is a character, so that any text round-trips: printable ASCII, then CJK.
_CHARACTERS = [*map(chr, range(32, 127)), *map(chr, range(0x4E00, 0x4E00 + EOS))][:EOS]
# Factors for matrices, and the noise on everything else, in the order in which they are tried.
_SPREADS = ((4, 0.3), (2, 0.3), (8, 0.3), (8, 1.0), (16, 0.3), (32, 0.3))
_LEAST_EFFECT = 0.1  # nats that a change of recent tokens must make
_LEAST_CHOICE = 0.03  # nats below 0 of the likeliest token: beyond it everything is certain


class Lifeless(Exception):
    """No spread makes the logits depend on recent tokens."""


@dataclass(frozen=True, kw_only=True)
class TinyModel:
    """A tiny model on disk and in memory."""

    folder: Path
    """As a download would leave it."""
    model: Any
    """Loaded by mlx-lm, for its own loop."""
    effect: float
    """Nats by which a change of recent tokens moves the log-probabilities."""


def make_family(name: str, folder: Path) -> TinyModel:
    """Write a random model of a family into `folder`.

    Raises:
        Lifeless: its logits do not depend on recent tokens, or are not finite.
    """
    config = tiny_config(name) | {"eos_token_id": EOS}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = []
    for factor, noise in _SPREADS:
        mx.random.seed(0)
        model = build(name)
        _spread(model, factor, noise)
        weights = dict(tree_flatten(model.parameters()))
        mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
        loaded, _ = load_model(folder)
        effect = _effect(loaded)
        if effect >= _LEAST_EFFECT:
            return TinyModel(folder=folder, model=loaded, effect=effect)
        found.append(effect)
    raise Lifeless(f"recent tokens move the log-probabilities by {max(found):.2g} nats at most")


def text_of(tokens: list[int]) -> str:
    """Return the text that the tiny tokenizer turns into these tokens; EOS is not among them."""
    return "".join(_CHARACTERS[token] for token in tokens)


def _spread(model: Any, factor: float, noise: float) -> None:
    """Widen matrices, and put noise on what starts as a constant."""
    dice = np.random.default_rng(1)
    spread = []
    for name, value in tree_flatten(model.parameters()):
        changed = value
        if not mx.issubdtype(value.dtype, mx.floating):
            pass
        elif value.ndim > 1 and bool(mx.any(value != 0)):
            changed = value * factor
        else:
            changed = value + mx.array(noise * dice.standard_normal(value.shape), value.dtype)
        spread.append((name, changed))
    model.load_weights(spread)


def _effect(model: Any) -> float:
    """Return how far recent tokens move the last log-probabilities; 0 where they are useless."""
    tokens = np.random.default_rng(0).integers(0, EOS, 20)
    changed = tokens.copy()
    changed[-5:-1] = (tokens[-5:-1] + 100) % EOS
    ends = []
    for each in (tokens, changed):
        logits = model(mx.array(each[None]), cache=make_prompt_cache(model))[0, -1]
        ends.append(logits - mx.logsumexp(logits))
    one, other = ends
    if not bool(mx.all(mx.isfinite(one))) or float(one.max()) > -_LEAST_CHOICE:
        return 0.0
    return float(mx.abs(one - other).max())


def tokenizer_card() -> TokenizerCard:
    """Return a tokenizer that knows one character for each token but EOS.

    As a card, because transformers makes tokenizers of its own for some families, and checks their
    configs by rules that mlx-lm does not have.
    """
    vocabulary = {character: token for token, character in enumerate(_CHARACTERS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<|end|>"])
    return TokenizerCard(
        backend=tokenizer.to_str(),
        templates={},
        special_tokens={"eos_token": "<|end|>"},
        eos_ids=[EOS],
        longest_token=len("<|end|>"),
        thinking=False,
    )
