"""A training tried on a few made-up tokens before it begins.

Architectures differ, and some are computed in ways that have no gradient, or that a backward pass
which computes layers again does not see: state that layers share behind each other's back. Whatever
is configured is compared with the plain gradient once; what differs is refused rather than learned.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten

from core.errors import MlxbunError, UsageProblem
from core.train.arrays import number
from core.train.config import PROJECTIONS
from core.train.encode import Encoded, EncodedPair, Item
from core.train.lora import Arrays, derived_key, find_targets, mount, set_trainable, trainable
from core.train.model import blaming_architecture
from core.train.step import Stepper

if TYPE_CHECKING:
    from core.train.config import TrainConfig
    from core.train.model import TrainModel

_PROMPT, _ANSWERS = (1, 2, 3, 4, 5), ((6, 7, 8, 9), (2, 9, 3))
_SPREAD = 0.05  # of the adapters that are tried: at B = 0 nothing flows into A
# Of the gradient's norm, what two ways of the same may differ by.
_NEAR, _NEAR_HALF = 1e-3, 0.05
_HALF = (mx.float16, mx.bfloat16)
_SAVERS = ("grad_checkpoint", "segment_size", "mlp_split")


def can_train(model: Any) -> bool:
    """Return whether gradients reach adapters on a model, without computing anything.

    The graph of a backward pass is built and never evaluated: what has no gradient is refused while
    it is built. `check_gradients` computes real ones before a training begins.

    Args:
        model: an mlx-lm model in which nothing runs; afterwards it is as it was.
    """
    before: dict[str, Any] = {}
    try:
        modules = dict(model.named_modules())
        ranks = {target.path: 1 for target in find_targets(model, PROJECTIONS, 0)}
        before = {path: modules[path] for path in ranks}
        mount(model, ranks, scale=1.0, rs_lora=False, dropout=0.0, seed=0)
        model.train()  # some layers have another way for it
        tokens = mx.array([_PROMPT])
        nn.value_and_grad(model, lambda: model(tokens).astype(mx.float32).sum())()
    # Foreign code that was written to answer, not to be trained: it fails in ways of its own.
    except Exception:
        return False
    finally:
        model.update_modules(tree_unflatten(list(before.items())))
        model.eval()
    return True


def check_gradients(config: TrainConfig, trained: TrainModel) -> None:
    """Refuse a training whose gradients cannot be computed, or not in the configured way.

    Raises:
        UsageProblem: it says what does not work with the architecture.
    """
    kind = str(trained.config.get("model_type", "unknown"))
    before = trainable(trained.model)
    try:
        set_trainable(trained.model, _spread(before))
        with blaming_architecture(kind):
            wanted = _gradients(_plain(config), trained)
            if not math.isfinite(_norm(wanted)):
                raise ValueError("its gradients are no numbers")
        used = [name for name in _SAVERS if getattr(config, name)]
        if used and (reason := _difference(config, trained, wanted)):
            raise UsageProblem(
                f"{' with '.join(used)} does not work with this architecture ({kind}): {reason}.",
                hint="Leave it out; a smaller batch_size or max_seq_length saves memory too.",
            )
    finally:
        set_trainable(trained.model, before)


def _difference(config: TrainConfig, trained: TrainModel, wanted: Arrays) -> str | None:
    """Return why the configured way does not give the gradients that are wanted; None: it does."""
    try:
        found = _gradients(replace(config, lora_dropout=0.0, grad_clip_norm=0.0), trained)
    except MlxbunError:
        raise  # it says more than we could
    # Layers that are called in unforeseen ways fail in ways of their own.
    except Exception as problem:
        return f"it fails with {' '.join(f'{type(problem).__name__}: {problem}'.split())[:300]}"
    error = _norm({name: found[name] - wanted[name] for name in wanted})
    half = any(v.dtype in _HALF for _, v in tree_flatten(trained.model.parameters()))
    near = error <= (_NEAR_HALF if half else _NEAR) * _norm(wanted)
    return None if near else "it gives other gradients than without"


def _gradients(config: TrainConfig, trained: TrainModel) -> Arrays:
    stepper = Stepper(config, trained.model, trained.split)
    _, grads = stepper.gradients([_item(config, trained.split.vocabulary)], [(0,)], 1)
    return grads


def _plain(config: TrainConfig) -> TrainConfig:
    return replace(
        config,
        grad_checkpoint=False,
        segment_size=0,
        mlp_split=False,
        lora_dropout=0.0,
        grad_clip_norm=0.0,
        orpo_prefix_shared=False,
    )


def _item(config: TrainConfig, vocabulary: int) -> Item:
    """Return a row of the kind that the method learns from."""
    parts = [
        Encoded(
            tokens=tuple(token % vocabulary for token in (*_PROMPT, *answer)),
            response=bytes(len(_PROMPT)) + b"\1" * len(answer),
        )
        for answer in _ANSWERS
    ]
    return EncodedPair(chosen=parts[0], rejected=parts[1]) if config.pairs else parts[0]


def _spread(values: Arrays) -> Arrays:
    """Return adapters that are not zero."""
    return {
        name: value + _SPREAD * mx.random.normal(value.shape, key=derived_key("trial", name))
        for name, value in values.items()
    }


def _norm(arrays: Arrays) -> float:
    return number(mx.sqrt(sum((mx.square(a).sum() for a in arrays.values()), mx.array(0.0))))
