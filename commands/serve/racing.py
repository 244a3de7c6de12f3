"""Waiting for work that something else may make pointless."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

_Result = TypeVar("_Result")


async def unless(
    alarm: Coroutine[Any, Any, Any], error: Exception, work: Coroutine[Any, Any, _Result]
) -> _Result:
    """Return the result of `work`; when `alarm` returns first, cancel it and raise `error`."""
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(alarm)
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise error
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
