"""Bound the time of code that came with a model. Imports no arrays.

A chat template is a program from a model folder, and nothing keeps it from looping. It runs in a
thread of its own, which gets an exception when its time is up.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class OutOfTimeError(Exception):
    """The call did not return in time."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of a call of pure Python code, or stop it.

    Args:
        seconds: how long it may take.
        call: takes nothing; what it raises is raised here.

    Raises:
        OutOfTimeError: the time was up; the call is being stopped.
    """
    results: list[T] = []
    problems: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        # Handed over to the caller's thread, where it is raised.
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work, daemon=True, name="bounded")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _stop(thread)
        raise OutOfTimeError(f"it did not return within {seconds:g} seconds")
    if problems:
        raise problems[0]
    return results[0]


def _stop(thread: threading.Thread) -> None:
    """Raise SystemExit in another thread, at its next Python instruction."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
    )
