"""Import mlx-lm without the second that transformers takes; it follows when it is needed.

mlx-lm imports transformers for tokenizers only, and huggingface_hub to fetch models, which we do
ourselves. While mlx-lm is imported, stand-ins take their places; they pass on to the real things
when they are used. A tokenizer that `tokenizer_card` knows never uses them. Tried with mlx-lm
0.32.2; when the import fails this way, it is done the plain way.

A model is loaded by several threads, and `import` is not safe across them: transformers replaces
its own entry in `sys.modules` while it is imported, so that a second thread sees a module without
its names, and Python hands out half-made modules rather than let two threads wait for each other.
So what those threads import goes through this module, under one lock.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# Held while a stand-in takes the place of a module, and for every import that other threads may
# race with. Taken before any module's own import lock, never while a module is being imported.
IMPORTING = threading.RLock()
_NAMES = ("AutoTokenizer", "PreTrainedTokenizer", "PreTrainedTokenizerFast")


def import_mlx_lm() -> None:
    """Import mlx-lm's models and generators, the short way where that is possible."""
    with IMPORTING:
        if "mlx_lm" in sys.modules:
            return
        if "transformers" not in sys.modules and not _import_short():
            importlib.import_module("mlx_lm")


def load_tokenizer(folder: Path, eos_ids: Any) -> Any:
    """Return mlx-lm's tokenizer of a model folder, made by the real transformers.

    Args:
        folder: the model's.
        eos_ids: tokens that end an answer: one, several or None.

    Raises:
        Exception: what transformers raises on files that it cannot use.
    """
    import_mlx_lm()
    with IMPORTING:
        _bring_transformers()
        # It imports a tokenizer's class only when it makes one, so the lock is held until then.
        # By name: planning code refers to tokenizers, and imports no arrays.
        return importlib.import_module("mlx_lm.utils").load_tokenizer(folder, eos_token_ids=eos_ids)


def import_tuner() -> Any:
    """Return `mlx_lm.tuner.utils`, which loads adapters; the short way where that is possible."""
    import_mlx_lm()
    name = "mlx_lm.tuner.utils"
    with IMPORTING:
        if name not in sys.modules and "transformers" not in sys.modules:
            _import_beside_stand_ins(name, package="mlx_lm.tuner")
        return importlib.import_module(name)


def import_alone(name: str) -> ModuleType:
    """Import a module by its name while a model is loaded in other threads."""
    with IMPORTING:
        return importlib.import_module(name)


def _import_short() -> bool:
    """Import mlx-lm beside stand-ins; False: it did not work, and nothing is left of it."""
    import huggingface_hub

    huggingface_hub.__dict__["snapshot_download"] = _fetch
    try:
        return _import_beside_stand_ins("mlx_lm", package="mlx_lm")
    finally:
        del huggingface_hub.__dict__["snapshot_download"]


def _import_beside_stand_ins(name: str, *, package: str) -> bool:
    """Import a module beside stand-ins; False: it did not work, and its package is not there."""
    stand_ins = _stand_ins()
    sys.modules.update(stand_ins)
    try:
        importlib.import_module(name)
    # Another version may want more of them than they can be.
    except Exception:
        for each in [each for each in sys.modules if f"{each}.".startswith(f"{package}.")]:
            del sys.modules[each]
        return False
    finally:
        for each in stand_ins:
            del sys.modules[each]
    return True


def _bring_transformers() -> None:
    """Give mlx-lm the real transformers, if it was imported beside the stand-ins."""
    module = sys.modules["mlx_lm.tokenizer_utils"]
    if not isinstance(module.__dict__["AutoTokenizer"], _StandIn):
        return
    old = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    # Functions that others hold read the module's names when they run; classes must be replaced.
    importlib.reload(module)
    others = [other for name, other in sys.modules.items() if name.split(".")[0] == "mlx_lm"]
    for other in others:
        for name, value in old.items():
            if vars(other).get(name) is value and value.__module__ == module.__name__:
                setattr(other, name, getattr(module, name))


def _stand_ins() -> dict[str, ModuleType]:
    top, base = ModuleType("transformers"), ModuleType("transformers.tokenization_utils_base")
    for module in (top, base):
        module.__spec__ = ModuleSpec(module.__name__, loader=None)
    for name in _NAMES:
        setattr(top, name, type(name, (), {}))
    top.__dict__["AutoTokenizer"] = _StandIn()
    base.__dict__["PreTrainedTokenizerBase"] = type("PreTrainedTokenizerBase", (), {})
    return {module.__name__: module for module in (top, base)}


class _StandIn:
    """For `AutoTokenizer`, to which mlx-lm adds a class of its own at import."""

    def register(self, *_args: Any, **_kwargs: Any) -> None:
        """Do nothing: the real one is told when it is there (`_bring_transformers`)."""


def _fetch(*args: Any, **kwargs: Any) -> str:
    from huggingface_hub import snapshot_download

    folder: str = snapshot_download(*args, **kwargs)
    return folder
