"""Import xgrammar without torch.

xgrammar's metadata asks for torch and triton (gigabytes), but on its NumPy path only their names
are touched, and only while it is imported. Where torch is absent, a placeholder stands in for that
moment; where it is installed, the real one is used. Versions tried: 0.2.9.
"""

from __future__ import annotations

import sys
import threading
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from core.errors import BackendMissing

_lock = threading.Lock()


def load_xgrammar() -> Any:
    """Return the `xgrammar` module.

    Raises:
        BackendMissing: it is not installed.
    """
    with _lock:
        if "xgrammar" in sys.modules:
            return sys.modules["xgrammar"]
        if find_spec("xgrammar") is None:
            raise BackendMissing(
                "Structured output needs xgrammar, which is not installed.",
                hint="Run `pip install --no-deps xgrammar apache-tvm-ffi`.",
            )
        if find_spec("torch") is not None:
            return _import()
        # These look for torch themselves and must find none: they go first.
        import transformers  # noqa: F401
        import tvm_ffi  # noqa: F401

        sys.modules["torch"] = _placeholder()
        try:
            return _import()
        finally:
            del sys.modules["torch"]


def _import() -> Any:
    import xgrammar

    return xgrammar


def _placeholder() -> ModuleType:
    """Return a module with the names that xgrammar's import and annotations touch."""
    torch: Any = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", loader=None)
    torch.int32 = "int32"
    for name in ("Tensor", "LongTensor", "FloatTensor"):
        setattr(torch, name, type(name, (), {}))
    torch.tensor = lambda *_values, **_options: None  # a constant that only the torch path reads
    module: ModuleType = torch
    return module
