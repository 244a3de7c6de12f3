"""From a decoded request to its answer: submit, then stream the events or fold them into one.

Protocols differ in their encoder only. Whoever leaves early lets the row go.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from litestar import Response

from commands.serve.failures import ClientGone, unexpected_body
from commands.serve.sse import DONE, EventStream, data_event, until_disconnect
from commands.serve.wire.openai.errors import message_body
from core.engine.events import Finished, TextDelta
from core.errors import EngineStopped, MlxbunError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from litestar import Request
    from litestar.types import ASGIApp

    from commands.serve.serving import Serving
    from commands.serve.wire.openai.decode import Call
    from commands.serve.wire.openai.encode import AnswerEncoder
    from core.engine.generation import Generation
    from core.engine.request import GenerationRequest

_Result = TypeVar("_Result")

# Smaller bodies decode in less time than handing them to a thread is worth.
_DECODE_INLINE = 1_000_000


class StreamedAnswer(Response[None]):
    """An answer that is sent as it grows; it speaks ASGI by itself."""

    def __init__(self, stream: EventStream) -> None:
        super().__init__(None)
        self._stream = stream

    def to_asgi_response(self, *_args: Any, **_options: Any) -> ASGIApp:  # type: ignore[override]
        """Return the stream."""
        return self._stream


async def decode_call(
    serving: Serving, decode: Callable[[bytearray], Call], body: bytearray
) -> Call:
    """Decode a body, off the event loop when it is a long one.

    Raises:
        BadRequest: it is not a request.
    """
    if len(body) <= _DECODE_INLINE:
        return decode(body)
    return await serving.workers.run(decode, body)


async def answer_call(
    request: Request[Any, Any, Any], serving: Serving, call: Call, encoder: AnswerEncoder
) -> Response[Any]:
    """Ask the engine and answer.

    Errors that come before the first event are raised, streaming or not, so that they get a status
    of their own.

    Raises:
        MlxbunError: what the engine says.
        ClientGone: the client hung up.
    """
    drain = serving.options.drain
    generation = await _while_connected(request, _submit(serving, call.request))
    drain.owe(generation)
    if call.stream:
        stream = EventStream(
            _chunks(generation, encoder),
            on_close=lambda: drain.settle(generation),
            keep_alive=serving.options.keep_alive,
        )
        return StreamedAnswer(stream)
    try:
        text, finished = await _while_connected(request, _fold(generation))
    finally:
        drain.settle(generation)
    return Response(encoder.whole(text, finished), media_type="application/json")


async def _submit(serving: Serving, wanted: GenerationRequest) -> Generation:
    """Hand a request to the engine; when nobody waits any more, let the row go again."""
    submission = asyncio.ensure_future(serving.workers.run(serving.engine.submit, wanted))
    try:
        return await asyncio.shield(submission)
    except asyncio.CancelledError:
        submission.add_done_callback(_cancel_result)
        raise


def _cancel_result(submission: asyncio.Task[Generation]) -> None:
    if not submission.cancelled() and submission.exception() is None:
        submission.result().cancel()


async def _chunks(generation: Generation, encoder: AnswerEncoder) -> AsyncGenerator[bytes, None]:
    """Yield the events of a stream; whatever goes wrong becomes its last one."""
    try:
        for chunk in encoder.opening():
            yield data_event(chunk)
        async for event in generation:
            if isinstance(event, Finished):
                yield data_event(encoder.closing(event))
                yield DONE
            else:
                yield data_event(encoder.piece(event.text))
    except MlxbunError as error:
        yield data_event(message_body(error.message))
    except Exception as error:
        yield data_event(unexpected_body(error))


async def _fold(generation: Generation) -> tuple[str, Finished]:
    """Return the whole text and how it ended.

    Raises:
        EngineFailed: the answer broke off.
    """
    pieces: list[str] = []
    async for event in generation:
        if isinstance(event, TextDelta):
            pieces.append(event.text)
        else:
            return "".join(pieces), event
    raise EngineStopped("The answer was cancelled before it was done.")


async def _while_connected(
    request: Request[Any, Any, Any], work: Coroutine[Any, Any, _Result]
) -> _Result:
    """Return the result of `work`, which is cancelled when the client hangs up.

    Raises:
        ClientGone: it did.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(until_disconnect(request.receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        for waiting in (task, watcher):
            waiting.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)
