"""The sampling that a model's authors recommend: `generation_config.json`. Imports no arrays.

The file belongs to transformers, and anyone may have written it: it is read within a limit, and a
value that cannot be used is left out with a note.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.engine.request import SamplingParams
from core.errors import BadModelFiles
from core.registry.files import printable, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NAME = "generation_config.json"

_LIMIT = 2**20  # bytes; real files have a few hundred

# The fields of `SamplingParams` that the file may set, each with its range.
_NUMBERS: dict[str, tuple[type[int] | type[float], float, float]] = {
    "temperature": (float, 0, 100),
    "top_p": (float, 0, 1),
    "top_k": (int, 0, 2**31 - 1),
    "min_p": (float, 0, 1),
    "repetition_penalty": (float, 0.01, 100),
    "presence_penalty": (float, -100, 100),
    "frequency_penalty": (float, -100, 100),
    "xtc_probability": (float, 0, 1),
    "xtc_threshold": (float, 0, 0.5),
}
# What transformers would do and we do not, each with the values that ask for nothing.
_NOT_APPLIED: dict[str, tuple[Any, ...]] = {
    "typical_p": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
    "top_h": (),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "num_beams": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,),
    "sequence_bias": ({}, []),
    "bad_words_ids": ([],),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "guidance_scale": (1,),
    "exponential_decay_length_penalty": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "force_words_ids": ([],),
    "constraints": ([],),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "stop_strings": ([], ""),
    "watermarking_config": (),
}


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """What the file says."""

    sampling: SamplingParams = field(default_factory=SamplingParams)
    """What it sets; None where it sets nothing."""
    notes: tuple[str, ...] = ()
    """What was left out and why, one sentence each."""


def read_recommended(folder: Path) -> Recommended:
    """Return the sampling that a model folder recommends; without the file, none.

    Raises:
        BadModelFiles: the file is not a regular one, is larger than 1 MiB, cannot be read, or holds
            something other than an object, at which mlx-lm fails too.
    """
    try:
        raw = read_bytes(folder / NAME, limit=_LIMIT)
    except FileNotFoundError:
        return Recommended()
    except OSError as problem:
        raise _unusable(folder, problem.strerror or str(problem)) from problem
    try:
        given = json.loads(raw.decode())
    except json.JSONDecodeError:
        return Recommended(notes=(f"{NAME} is not JSON and is ignored.",))
    except (ValueError, RecursionError) as problem:
        raise _unusable(folder, "it is not a JSON object") from problem
    if not isinstance(given, dict):
        raise _unusable(folder, "it is not a JSON object")
    return _read(given)


def _unusable(folder: Path, reason: str) -> BadModelFiles:
    return BadModelFiles(
        f"{folder / NAME} cannot be used: {reason}.",
        hint="Fix the file or delete it; the model works without it.",
    )


def _read(given: Mapping[str, Any]) -> Recommended:
    values: dict[str, Any] = {}
    notes = []
    for name, wanted in _NUMBERS.items():
        try:
            values[name] = _number(given.get(name), *wanted)
        except ValueError as problem:
            notes.append(f"{NAME}: {name} must be {problem} and is ignored.")
    # transformers draws nothing then, whatever the temperature.
    if given.get("do_sample") is False:
        values["temperature"] = 0.0
    notes += [f"{NAME} sets {name}, which is not applied." for name in _left_out(given)]
    return Recommended(sampling=SamplingParams(**values), notes=tuple(notes))


def _number(value: Any, kind: type[int] | type[float], low: float, high: float) -> Any:
    """Return a number of a kind, or None where nothing is set.

    Raises:
        ValueError: it is something else; the text says what it should be.
    """
    if value is None:
        return None
    known = isinstance(value, int | float) and not isinstance(value, bool)
    # The range first: neither infinity nor a number of a thousand digits converts.
    if known and low <= value <= high and kind(value) == value:
        return kind(value)
    if known and value == 0:  # off, where the range begins above it
        return kind(0)
    wanted = f"an integer from {low} to {high}" if kind is int else f"a number from {low} to {high}"
    raise ValueError(f"{wanted}, not {printable(json.dumps(value), 40)},")


def _left_out(given: Mapping[str, Any]) -> Iterator[str]:
    for name, nothing in _NOT_APPLIED.items():
        if given.get(name) is not None and given[name] not in nothing:
            yield name
