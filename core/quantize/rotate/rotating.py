"""A model whose weights are rotated: the same function, with outliers spread over all channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from core.errors import UsageProblem
from core.quantize.rotate.residual import residual_steps
from core.quantize.rotate.roles import CannotRotateError, Places, find_places, parameters
from core.quantize.rotate.steps import Steps, applied, joined, load
from core.quantize.rotate.trial import TOLERANCE, difference
from core.quantize.rotate.values import value_steps
from core.registry.files import printable
from core.units import format_count

_POST = "it has norms after attention and MLP, whose weights a rotation of the residual cannot pass"
_TIED = "mlx-lm always computes its logits with the embedding"
_MEAN = "its norms subtract the mean, which a rotation of the residual does not keep"
_REFUSED = {
    **dict.fromkeys((
        "afmoe", "exaone4", "gear", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma4",
        "gemma4_text", "glm4", "muse_glimmer", "olmo2", "olmo3", "olmo_hybrid", "plamo2",
        "plamo3",
    ), _POST),
    **dict.fromkeys((
        "cohere", "cohere2", "dbrx", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "nemotron",
        "olmo", "phi", "phi3small", "phimoe", "phixtral", "rwkv7", "stablelm", "starcoder2",
    ), _MEAN),
    **dict.fromkeys((
        "gemma", "lfm2", "lfm2-vl", "lfm2_moe", "lille-130m", "openelm",
    ), _TIED),
}  # fmt: skip
"""Architectures that are refused before a model is loaded, and why. Others are tried."""


@dataclass(frozen=True, kw_only=True)
class Rotated:
    """A rotated model."""

    model: Any
    """A new mlx-lm module. Its arrays are lazy and in the types that the original's have."""
    config: dict[str, Any]
    """What config.json has to say."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""


def rotate(
    model: Any,
    config: Mapping[str, Any],
    *,
    seed: int,
    small: bool = False,
    unread: Sequence[str] = (),
) -> Rotated:
    """Return a model with rotated weights that computes what the original does.

    The residual form rotates the residual stream and the values of each attention head, and gives
    a tied model a head of its own. The small form rotates the values only. Whether the output is
    the same is tried before this returns; that computes the embedding, the head, and one layer of
    each kind (all layers of a model with up to 268 million weights).

    Args:
        model: the mlx-lm module, its weights not quantized; it stays as it is.
        config: its config.json.
        seed: the same one gives the same weights to the last bit.
        small: rotate the values only.
        unread: names of tensors that this module does not hold and that are written unchanged, such
            as those of vision or of multi-token prediction.

    Raises:
        UsageProblem: the model cannot be rotated in this form.
    """
    check_rotation(config, small=small)
    try:
        _refuse_quantized(model)
        return _small(model, config, seed) if small else _residual(model, config, seed, unread)
    except CannotRotateError as why:
        raise _refusal(config, str(why), small=small) from why


def check_rotation(config: Mapping[str, Any], *, small: bool = False) -> None:
    """Refuse what config.json alone shows to be impossible.

    Raises:
        UsageProblem: the residual form is wanted, and the architecture does not allow it.
    """
    if small:
        return
    text = config.get("text_config")
    names = [config.get("model_type"), text.get("model_type") if isinstance(text, dict) else None]
    for name in names:
        if why := _REFUSED.get(str(name)):
            raise _refusal(config, why, small=False)
    for key in ("vision_config", "audio_config"):
        if config.get(key):
            why = f"it has {key.removesuffix('_config')} tensors, which feed the residual stream"
            raise _refusal(config, why, small=False)


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One model on its way to a rotated one."""

    model: Any
    """The original module."""
    config: dict[str, Any]
    """The original's configuration."""
    changed: dict[str, Any]
    """The rotated model's."""
    arrays: dict[str, mx.array]
    """The rotated model's tensors before they are rotated: the original's, and a head."""

    def made(self, steps: Steps, *, dtype: mx.Dtype | None = None) -> Any:
        """Return the rotated model."""
        return _fresh(self.model, self.changed, applied(self.arrays, steps, dtype=dtype))

    def error(self, steps: Steps) -> float:
        """Return by how much the rotated model's output differs (`trial`).

        Half of the steps alone must make a difference: a trial that does not see them shows
        nothing.

        Raises:
            CannotRotateError: the output cannot be computed, or does not show it.
        """
        plain = applied(parameters(self.model), {}, dtype=mx.float32)
        half = {path: some for index, (path, some) in enumerate(steps.items()) if index % 2}
        try:
            original = _fresh(self.model, self.config, plain)
            error, broken = (
                difference(original, self.made(some, dtype=mx.float32)) for some in (steps, half)
            )
        except Exception as problem:  # foreign code, called in a way it may not know
            clause = " ".join(f"{type(problem).__name__}: {problem}".split())[:200]
            raise CannotRotateError(f"its output cannot be compared ({clause})") from problem
        if broken <= TOLERANCE:
            raise CannotRotateError("its output hardly depends on what would be rotated")
        return error

    def checked(self, steps: Steps, notes: Sequence[str]) -> Rotated:
        """Return the rotated model after comparing it with the original.

        Raises:
            CannotRotateError: they differ.
        """
        error = self.error(steps)
        if not error <= TOLERANCE:  # also refuses NaN
            raise CannotRotateError(
                f"the rotated model's logits differ by {error:.2g} of their spread"
            )
        return Rotated(model=self.made(steps), config=self.changed, notes=tuple(notes))


def _small(model: Any, config: Mapping[str, Any], seed: int) -> Rotated:
    steps = value_steps(model, seed=seed)
    if not steps:
        raise CannotRotateError("it has no attention whose values can be rotated")
    same = deepcopy(dict(config))
    task = _Task(model=model, config=same, changed=same, arrays=parameters(model))
    return task.checked(steps, [_counted(steps, "values within heads", seed)])


def _residual(model: Any, config: Mapping[str, Any], seed: int, unread: Sequence[str]) -> Rotated:
    if unread:
        raise CannotRotateError(
            f"{len(unread)} tensors outside the language model would have to be rotated with its "
            f"residual stream, such as {unread[0]}"
        )
    task, places, notes = _untied(model, config)
    steps, values = residual_steps(model, places, seed=seed), value_steps(model, seed=seed)
    if values:
        both = joined(steps, values)
        if task.error(both) <= TOLERANCE:
            line = _counted(both, "the residual stream and values within heads", seed)
            return Rotated(model=task.made(both), config=task.changed, notes=(line, *notes))
    line = _counted(steps, "the residual stream", seed)
    return task.checked(steps, [line, "Values are not rotated within heads.", *notes])


def _untied(model: Any, config: Mapping[str, Any]) -> tuple[_Task, Places, list[str]]:
    """Return a model with a head of its own, where its head lies, and what to say about it."""
    original, places, arrays = deepcopy(dict(config)), find_places(model), parameters(model)
    if places.head is not None:
        task = _Task(model=model, config=original, changed=original, arrays=arrays)
        return task, places, []
    changed = deepcopy(original) | {"tie_word_embeddings": False}
    if isinstance(changed.get("text_config"), dict):
        changed["text_config"]["tie_word_embeddings"] = False
    places = replace(places, head=_new_head(model, changed, arrays))
    table = arrays[f"{places.embedding}.weight"]
    share = table.size / sum(array.size for array in arrays.values())
    arrays[f"{places.head}.weight"] = table
    line = (
        f"The tied embedding becomes two tensors: {format_count(table.size)} more weights "
        f"({share:.0%})."
    )
    return _Task(model=model, config=original, changed=changed, arrays=arrays), places, [line]


def _new_head(model: Any, changed: dict[str, Any], arrays: Mapping[str, mx.array]) -> str:
    """Return the head that a model has once its embedding is not tied.

    Raises:
        CannotRotateError: mlx-lm ties it in any case.
    """
    more = set(parameters(_fresh(model, changed))) - set(arrays)
    if len(more) != 1:
        raise CannotRotateError(_TIED)
    return more.pop().removesuffix(".weight")


def _fresh(
    model: Any, config: Mapping[str, Any], arrays: Mapping[str, mx.array] | None = None
) -> Any:
    """Return another module of a model's class."""
    args = getattr(model, "args", None) or model.config
    made = type(model)(type(args).from_dict(deepcopy(dict(config))))
    if arrays is not None:
        load(made, arrays)
    return made


def _refuse_quantized(model: Any) -> None:
    for path, array in parameters(model).items():
        if path.endswith(".scales") or array.dtype == mx.uint32:
            raise CannotRotateError(f"{path.rpartition('.')[0]} is quantized")


def _counted(steps: Steps, what: str, seed: int) -> str:
    return f"Rotated {what} with seed {seed}: {len(steps)} tensors."


def _refusal(config: Mapping[str, Any], why: str, *, small: bool) -> UsageProblem:
    name = printable(str(config.get("model_type")))
    what = "The value channels" if small else "The residual stream"
    hint = "Do without a rotation." if small else "Rotate value channels only, or do without."
    return UsageProblem(f"{what} of {name} cannot be rotated: {why}.", hint=hint)
