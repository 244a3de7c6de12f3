"""From a decoded request to its answer: submit, then stream the events or fold them into one.

Protocols differ in their encoder only. Whoever leaves early lets the row go.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from litestar import Response

from commands.serve.failures import ClientGone, unexpected_body
from commands.serve.racing import unless
from commands.serve.routes.body import read_body
from commands.serve.sse import DONE, EventStream, data_event, until_disconnect
from commands.serve.wire.openai.errors import message_body
from core.engine.events import Finished, TextDelta
from core.errors import EngineStopped, MlxbunError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from litestar import Request
    from litestar.types import ASGIApp

    from commands.serve.serving import Serving
    from commands.serve.wire.openai.decode import Call
    from commands.serve.wire.openai.encode import AnswerEncoder
    from core.engine.generation import Generation
    from core.engine.request import GenerationRequest

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


async def answer_request(
    request: Request[Any, Any, Any],
    decode: Callable[[bytearray], Call],
    make_encoder: Callable[[str], AnswerEncoder],
) -> Response[Any]:
    """Read, decode, ask the engine and answer.

    Args:
        request: the client's.
        decode: of its protocol.
        make_encoder: takes the served model's id.

    Errors that come before the first event are raised, streaming or not, so that they get a status
    of their own.

    Raises:
        MlxbunError: the request is bad, the engine failed, or the server has stopped.
        ClientGone: the client hung up.
    """
    serving: Serving = request.app.state.serving
    encoder = make_encoder(serving.engine.info.model_id)
    drain = serving.options.drain
    return await drain.unless_given_up(_answer(request, serving, decode, encoder))


async def _answer(
    request: Request[Any, Any, Any],
    serving: Serving,
    decode: Callable[[bytearray], Call],
    encoder: AnswerEncoder,
) -> Response[Any]:
    body = await read_body(request)
    inline = len(body) <= _DECODE_INLINE
    call = decode(body) if inline else await serving.workers.run(decode, body)
    gone = ClientGone()
    submission = _submit(serving, call.request)
    generation = await unless(until_disconnect(request.receive), gone, submission)
    if call.stream:
        return _stream(generation, serving, encoder)
    try:
        text, finished = await unless(until_disconnect(request.receive), gone, _fold(generation))
    finally:
        generation.cancel()
    return Response(encoder.whole(text, finished), media_type="application/json")


def _stream(generation: Generation, serving: Serving, encoder: AnswerEncoder) -> StreamedAnswer:
    drain = serving.options.drain
    drain.owe(generation)
    stream = EventStream(
        _chunks(generation, encoder),
        on_close=lambda: drain.settle(generation),
        keep_alive=serving.options.keep_alive,
    )
    return StreamedAnswer(stream)


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
            elif isinstance(event, TextDelta):
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
        elif isinstance(event, Finished):
            return "".join(pieces), event
    raise EngineStopped("The answer was cancelled before it was done.")
