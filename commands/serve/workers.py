"""Work that would hold up the event loop, in threads that never hold up the end of the process."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class Workers:
    """Runs functions in daemon threads, a few at a time and in the order they came.

    `asyncio.to_thread` would do but for the end: it and the interpreter wait for its threads, and
    a prompt that takes a minute to tokenize must not keep a stopped server alive for a minute.
    """

    def __init__(self, limit: int = 4) -> None:
        self._slots = asyncio.Semaphore(limit)

    async def run(
        self,
        function: Callable[_Arguments, _Result],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Result:
        """Return what `function` returns, or raise what it raises."""
        async with self._slots:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[_Result] = loop.create_future()

            def settle(result: _Result | None, error: BaseException | None) -> None:
                if future.cancelled():
                    return
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(result)  # type: ignore[arg-type]

            def work() -> None:
                result, error = None, None
                try:
                    result = function(*args, **kwargs)
                except BaseException as problem:  # it belongs to whoever asked
                    error = problem
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(settle, result, error)

            threading.Thread(target=work, name="mlxbun-worker", daemon=True).start()
            return await future
