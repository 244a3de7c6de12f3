"""Find which layers' keys and values tolerate 4 or 8 bits, with mlx-lm's quantized caches.

A row is processed as a server does it: a long chunk of prompt, a shorter one that attends to it,
then tokens one by one. The KL divergence from the same model with plain caches is taken over the
last two. Each layer is measured alone at both widths; then as many layers as possible get few bits
while the divergence of all together, measured jointly, stays within the budget.

`B` rows, `T` tokens, `V` vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, QuantizedKVCache, make_prompt_cache

from core.errors import UsageProblem
from core.paths import atomic_write

KV_CONFIG = "kv_config.json"
"""File name, beside config.json."""
MAX_KL = 0.01
"""Budget of all layers together: mean KL divergence in nats per token. At this size the top-1 token
changes about as often as it does between two ways of rounding 16-bit arithmetic."""
WIDTHS = (4, 8)
"""Bits that a layer may get; a layer that tolerates neither keeps 16."""
GROUPS = (64, 32, 128)
"""Group sizes, the preferred one first; the first that divides keys and values is taken."""
SHORTEST = 16
"""Tokens that a row needs."""
ROWS = 8
"""Maximum number of rows; the log-probabilities of each, up to 72 * V numbers, are kept."""

_DECODED = 8  # tokens that are read one by one
_CHUNK = 64  # tokens of the chunk before them, at most
_PLAIN = 16  # bits without quantization
_NO_USE = 1e6  # divergence of a model whose output is not finite

OnProgress = Callable[[int, int], None]
"""Takes steps done and steps in all; the latter is an estimate until the last."""


@dataclass(frozen=True, kw_only=True)
class KvEntry:
    """One layer whose keys and values are quantized."""

    layer_idx: int
    """The layer's index among the model's caches, from 0."""
    bits: int
    """4 or 8."""
    group_size: int
    """Numbers that share a scale."""


@dataclass(frozen=True, kw_only=True)
class KvConfig:
    """What was found for a model."""

    entries: tuple[KvEntry, ...]
    """The layers that are quantized, in order; every other layer keeps 16 bits."""
    kl: float
    """KL divergence of all entries together, mean over tokens, nats."""
    alone: Mapping[int, Mapping[int, float]]
    """For each layer that was measured: width to KL divergence of this layer alone."""
    tokens: int
    """Positions that were compared."""
    notes: tuple[str, ...]
    """Layers that were left out, and why, one sentence each."""


class _Stopped(Exception):
    """`should_stop` returned true."""


def measure_kv_config(
    model: Any,
    rows: Sequence[mx.array],
    *,
    max_kl: float = MAX_KL,
    on_progress: OnProgress = lambda _done, _all: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> KvConfig | None:
    """Return the widths that a model's keys and values tolerate; None when stopped.

    Args:
        model: the mlx-lm module.
        rows: text, each [B, T] with at least 16 tokens; the first 8 rows are used.
        max_kl: budget of all layers together, nats per token.
        on_progress: called after every pass over the rows.
        should_stop: called before each pass over a row.

    Raises:
        UsageProblem: there are no rows, or one is too short.
    """
    if not rows or any(row.ndim != 2 or row.shape[1] < SHORTEST for row in rows):
        raise UsageProblem(f"Measuring KV widths needs rows of at least {SHORTEST} tokens.")
    try:
        return _Measure(model, rows, on_progress, should_stop).found(max_kl)
    except _Stopped:
        return None


def write_kv_config(folder: Path, found: KvConfig) -> Path:
    """Write a model's `kv_config.json` and return its path.

    Raises:
        OSError: it cannot be written.
    """
    target = folder / KV_CONFIG
    with atomic_write(target) as file:
        text = json.dumps([asdict(entry) for entry in found.entries], indent=1)
        file.write(text.encode() + b"\n")
    return target


class _Measure:
    """One measurement of one model."""

    def __init__(
        self,
        model: Any,
        rows: Sequence[mx.array],
        on_progress: OnProgress,
        should_stop: Callable[[], bool],
    ) -> None:
        self._model = model
        self._rows = rows[:ROWS]
        self._on_progress = on_progress
        self._should_stop = should_stop
        self._done = 0
        self._all = 0
        self._expected: list[mx.array] = []

    def found(self, max_kl: float) -> KvConfig:
        caches: list[Any] = []
        for row in self._rows:
            caches = make_prompt_cache(self._model)
            self._expected.append(self._read(row, caches))
        groups, notes = _groups(caches)
        self._all = 1 + len(WIDTHS) * len(groups) + (2 * len(groups)).bit_length() + 1
        self._step()
        alone: dict[int, dict[int, float]] = {}
        for layer, group in groups.items():
            try:
                alone[layer] = {bits: self._kl({layer: (bits, group)}) for bits in WIDTHS}
            except _Stopped:
                raise
            except Exception as problem:  # attention of foreign code that takes plain caches only
                notes.append(
                    _left_out([layer], f"its attention takes no quantized cache: {problem}")
                )
        chosen, kl = self._within(max_kl, alone, groups)
        entries = tuple(
            KvEntry(layer_idx=layer, bits=bits, group_size=groups[layer])
            for layer, bits in sorted(chosen.items())
        )
        self._on_progress(self._all, self._all)
        tokens = sum(each.shape[0] * each.shape[1] for each in self._expected)
        return KvConfig(entries=entries, kl=kl, alone=alone, tokens=tokens, notes=tuple(notes))

    def _within(
        self, max_kl: float, alone: Mapping[int, Mapping[int, float]], groups: Mapping[int, int]
    ) -> tuple[dict[int, int], float]:
        """Return the widths with the fewest bits on the path of promotions within the budget."""
        path = promotions(alone)
        low, high = 0, len(path) - 1  # the last has no quantized layer and no divergence
        best, best_kl = path[high], 0.0
        while low < high:
            middle = (low + high) // 2
            kl = self._kl({layer: (bits, groups[layer]) for layer, bits in path[middle].items()})
            if kl <= max_kl:
                high, best, best_kl = middle, path[middle], kl
            else:
                low = middle + 1
        return best, best_kl

    def _kl(self, widths: Mapping[int, tuple[int, int]]) -> float:
        """Return the mean divergence with some layers' caches quantized to (bits, group)."""
        total, count = 0.0, 0
        for row, expected in zip(self._rows, self._expected, strict=True):
            caches = make_prompt_cache(self._model)
            for layer, (bits, group) in widths.items():
                caches[layer] = QuantizedKVCache(group_size=group, bits=bits)
            found = self._read(row, caches)
            kl = mx.sum(mx.exp(expected) * (expected - found), axis=-1)  # [B, tokens]
            total += float(mx.sum(kl))
            count += kl.size
        self._step()
        mean = total / count
        return mean if mean < _NO_USE else _NO_USE  # also for NaN

    def _read(self, row: mx.array, caches: list[Any]) -> mx.array:
        """Return log-probabilities of a row's last tokens, [B, tokens, V], read through caches."""
        if self._should_stop():
            raise _Stopped
        length = row.shape[1]
        decode = length - _DECODED
        start = decode - min(_CHUNK, decode // 2)
        self._model(row[:, :start], cache=caches)
        mx.eval([cache.state for cache in caches])
        found = [self._logits(row[:, start:decode], caches)]
        found += [self._logits(row[:, at : at + 1], caches) for at in range(decode, length)]
        return mx.concatenate(found, axis=1)

    def _logits(self, tokens: mx.array, caches: list[Any]) -> mx.array:
        logits = self._model(tokens, cache=caches).astype(mx.float32)
        made: mx.array = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        mx.eval(made)
        return made

    def _step(self) -> None:
        self._done += 1
        self._on_progress(min(self._done, self._all), self._all)


def promotions(alone: Mapping[int, Mapping[int, float]]) -> list[dict[int, int]]:
    """Return widths of layers from all at 4 bits to none quantized, one layer promoted at a time.

    The layer that is promoted next is the one whose divergence falls most for each bit it gets.

    Args:
        alone: for each layer its divergence alone at each width.
    """
    steps: list[tuple[float, int, int]] = []  # what is gained, the layer, and its next width
    for layer, kl in alone.items():
        small, large = WIDTHS
        first = (kl[small] - kl[large]) / (large - small)
        second = kl[large] / (_PLAIN - large)
        if second > first:  # 8 bits gain less per bit: go from 4 to 16
            steps.append((kl[small] / (_PLAIN - small), layer, _PLAIN))
        else:
            steps += [(first, layer, large), (second, layer, _PLAIN)]
    widths = dict.fromkeys(alone, WIDTHS[0])
    path = [dict(widths)]
    for _, layer, bits in sorted(steps, key=lambda step: (-step[0], step[1], step[2])):
        widths[layer] = bits
        path.append({each: width for each, width in widths.items() if width < _PLAIN})
    return path


def _groups(caches: Sequence[Any]) -> tuple[dict[int, int], list[str]]:
    """Return the group of each layer that can be quantized, and what to say about the others.

    Args:
        caches: after they have been used.
    """
    groups: dict[int, int] = {}
    others: dict[str, list[int]] = {}
    for layer, cache in enumerate(caches):
        if type(cache) is not KVCache:
            others.setdefault(f"their cache is a {type(cache).__name__}", []).append(layer)
            continue
        if cache.keys is None:
            others.setdefault("nothing is written to their cache", []).append(layer)
            continue
        sizes = (cache.keys.shape[-1], cache.values.shape[-1])
        group = next((g for g in GROUPS if all(size % g == 0 for size in sizes)), None)
        if group is None:
            why = f"no group of {', '.join(map(str, sorted(GROUPS)))} divides heads of {sizes[0]}"
            others.setdefault(why, []).append(layer)
        else:
            groups[layer] = group
    return groups, [_left_out(layers, why) for why, layers in others.items()]


def _left_out(layers: Sequence[int], why: str) -> str:
    numbers = ", ".join(map(str, layers))
    reason = " ".join(why.split())[:200]
    return f"Layers left at 16 bits: {numbers} ({reason})."
