"""Modules that say what they are called with, while a block of code runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx import nn

OnCall = Callable[[str, mx.array, tuple[Any, ...]], None]
"""Takes a module's path, its input [.., I], and its other arguments, before it computes."""


class EnoughError(Exception):
    """Raised by a watcher to leave a forward pass that it has seen enough of."""


@contextmanager
def watched(modules: Mapping[str, Any], on_call: OnCall) -> Iterator[None]:
    """Watch modules within the block.

    A module stays the same object with the same attributes and passes `isinstance`: only its class
    is a subclass for a while. An embedding is watched where it serves as the head (`as_linear`).

    Args:
        modules: by path.
        on_call: what is called with each input.
    """
    kinds = {path: type(module) for path, module in modules.items()}
    try:
        for path, module in modules.items():
            module.__class__ = _watching(path, kinds[path], on_call)
        yield
    finally:
        for path, module in modules.items():
            module.__class__ = kinds[path]


def _watching(path: str, kind: type, on_call: OnCall) -> type:
    name = "as_linear" if issubclass(kind, nn.Embedding) else "__call__"
    inner = getattr(kind, name)

    def call(self: Any, x: mx.array, *rest: Any, **more: Any) -> Any:
        on_call(path, x, (*rest, *more.values()))
        return inner(self, x, *rest, **more)

    return type(kind.__name__, (kind,), {name: call})
