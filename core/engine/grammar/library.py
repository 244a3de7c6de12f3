"""Import xgrammar without torch, and without the second that transformers takes.

xgrammar's metadata asks for torch and triton (gigabytes), but on its NumPy path only their names
are touched, and only while it is imported; of transformers it uses nothing but two names in type
checks that we do not come by. Where they are absent, or not imported yet, placeholders stand in for
that moment. Versions tried: 0.2.9.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from core.engine.slim import IMPORTING
from core.errors import BackendMissing

INSTALL_HINT = "Run `pip install --no-deps xgrammar apache-tvm-ffi`."


def has_xgrammar() -> bool:
    """Return whether xgrammar is installed; nothing is imported."""
    return find_spec("xgrammar") is not None and find_spec("tvm_ffi") is not None


def load_xgrammar() -> Any:
    """Return the `xgrammar` module.

    Raises:
        BackendMissing: it is not installed.
    """
    with IMPORTING:
        if "xgrammar" in sys.modules:
            return sys.modules["xgrammar"]
        if not has_xgrammar():
            raise BackendMissing(
                "Structured output needs xgrammar, which is not installed.", hint=INSTALL_HINT
            )
        # It looks for torch itself and must find none: it goes first.
        import tvm_ffi  # noqa: F401

        stand_ins = _stand_ins()
        sys.modules.update(stand_ins)
        try:
            import xgrammar
        finally:
            for name in stand_ins:
                del sys.modules[name]
        return xgrammar


def _stand_ins() -> dict[str, ModuleType]:
    """Return placeholders of what is not there."""
    modules = {}
    if find_spec("torch") is None:
        modules["torch"] = _torch()
    if "transformers" not in sys.modules:
        names = ("PreTrainedTokenizerBase", "PreTrainedTokenizerFast", "LogitsProcessor")
        modules["transformers"] = _module("transformers", names)
    return modules


def _torch() -> ModuleType:
    """Return a module with the names that xgrammar's import and annotations touch."""
    torch: Any = _module("torch", ("Tensor", "LongTensor", "FloatTensor"))
    torch.int32 = "int32"
    torch.tensor = lambda *_values, **_options: None  # a constant that only the torch path reads
    module: ModuleType = torch
    return module


def _module(name: str, classes: tuple[str, ...]) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, loader=None)
    for class_name in classes:
        setattr(module, class_name, type(class_name, (), {}))
    return module
