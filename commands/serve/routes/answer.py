"""From a decoded request to its answer: submit, then stream the events or fold them into one.

Protocols differ in their encoder only. Whoever leaves early lets the row go.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from litestar import Response
from litestar.background_tasks import BackgroundTask

from commands.serve.choices import Choices
from commands.serve.failures import ClientGone, unexpected_body
from commands.serve.racing import unless
from commands.serve.routes.body import read_body
from commands.serve.sse import DONE, EventStream, data_event, until_disconnect
from commands.serve.tracing import HEADER, Trace, phase
from commands.serve.wire.openai.errors import error_body
from commands.serve.wire.openai.fold import Fold
from commands.serve.wire.openai.sampling import check_vocabulary
from commands.serve.wire.openai.unsupported import check_adapter
from core.engine.events import Finished, Position
from core.errors import EngineStopped, MlxbunError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from litestar import Request
    from litestar.types import ASGIApp

    from commands.serve.serving import Serving
    from commands.serve.tracing import Outcome
    from commands.serve.wire.openai.decode import Call
    from commands.serve.wire.openai.encode import AnswerEncoder
    from core.engine.events import Usage
    from core.engine.generation import Generation
    from core.engine.request import GenerationRequest

# Smaller bodies decode in less time than handing them to a thread is worth.
_DECODE_INLINE = 1_000_000

# Characters; servers in between refuse headers of some kilobytes.
_LONGEST_WARNING = 1000


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
    asked = _Asked(
        request=request, serving=serving, encoder=encoder, trace=_trace(request, serving, encoder)
    )
    try:
        return await serving.options.drain.unless_given_up(_answer(asked, decode))
    except BaseException as error:
        if asked.trace:
            gone = isinstance(error, ClientGone | asyncio.CancelledError)
            asked.trace.outcome = "abort" if gone else "error"
            asked.trace.finish()
        raise


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A request on its way."""

    request: Request[Any, Any, Any]
    """The client's."""
    serving: Serving
    """What answers it."""
    encoder: AnswerEncoder
    """Of its protocol."""
    trace: Trace | None
    """Where its time goes; None: nobody asks."""


def _trace(
    request: Request[Any, Any, Any], serving: Serving, encoder: AnswerEncoder
) -> Trace | None:
    tell = serving.options.trace
    if tell is None:
        return None
    return Trace(
        trace_id=request.headers.get(HEADER),
        request_id=encoder.id,
        route=request.url.path,
        tell=tell,
    )


async def _answer(asked: _Asked, decode: Callable[[bytearray], Call]) -> Response[Any]:
    gone, trace = ClientGone(), asked.trace
    with phase(trace, "request.body_parse"):
        call = await _read(asked, decode)
    asked = replace(asked, encoder=asked.encoder.shaped(call.shape))
    with phase(trace, "request.prompt_prepare"):
        submission = _submit(asked.serving, call.requests)
        choices = await unless(until_disconnect(asked.request.receive), gone, submission)
    headers = _headers((*call.warnings, *choices.warnings))
    if call.stream:
        return _stream(choices, asked, headers)
    try:
        with phase(trace, "completion.total"):
            folding = _fold(choices)
            folds = await unless(until_disconnect(asked.request.receive), gone, folding)
    finally:
        choices.cancel()
    return Response(
        asked.encoder.whole(folds),
        media_type="application/json",
        headers=headers,
        background=BackgroundTask(_written, trace, folds) if trace else None,
    )


async def _read(asked: _Asked, decode: Callable[[bytearray], Call]) -> Call:
    body = await read_body(asked.request)
    inline = len(body) <= _DECODE_INLINE
    call = decode(body) if inline else await asked.serving.workers.run(decode, body)
    info = asked.serving.engine.info
    check_vocabulary(call.request, info.vocabulary_size)
    check_adapter(call.adapter, info.adapter)
    return call


def _stream(choices: Choices, asked: _Asked, headers: dict[str, str]) -> StreamedAnswer:
    drain, trace = asked.serving.options.drain, asked.trace
    drain.owe(choices)
    chunks = _chunks(choices, asked.encoder, trace)

    def close() -> None:
        drain.settle(choices)
        if trace:
            trace.finish()

    stream = EventStream(
        _traced(chunks, trace) if trace else chunks,
        on_close=close,
        keep_alive=asked.serving.options.keep_alive,
        headers=headers,
    )
    return StreamedAnswer(stream)


async def _submit(serving: Serving, wanted: Sequence[GenerationRequest]) -> Choices:
    """Hand requests to the engine; free their rows if the client has left."""
    submission = asyncio.ensure_future(serving.workers.run(serving.engine.submit_together, wanted))
    try:
        return Choices(await asyncio.shield(submission))
    except asyncio.CancelledError:
        submission.add_done_callback(_cancel_result)
        raise


def _cancel_result(submission: asyncio.Task[list[Generation]]) -> None:
    if not submission.cancelled() and submission.exception() is None:
        Choices(submission.result()).cancel()


async def _chunks(
    choices: Choices, encoder: AnswerEncoder, trace: Trace | None
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a stream; whatever goes wrong becomes its last one."""
    try:
        with phase(trace, "completion.total"):
            async with aclosing(_pieces(choices, encoder, trace)) as pieces:
                async for piece in pieces:
                    yield piece
    except MlxbunError as error:
        _note_outcome(trace, "error")
        yield data_event(error_body(error))
    except Exception as error:
        _note_outcome(trace, "error")
        yield data_event(unexpected_body(error))


async def _pieces(
    choices: Choices, encoder: AnswerEncoder, trace: Trace | None
) -> AsyncGenerator[bytes, None]:
    for choice in range(len(choices)):
        if opening := encoder.opening(choice):
            yield data_event(opening)
    usages: dict[int, Usage] = {}
    positions: list[list[Position]] = [[] for _ in range(len(choices))]
    async with aclosing(choices.events()) as events:
        async for choice, event in events:
            if isinstance(event, Position):
                positions[choice].append(event)
                continue
            if isinstance(event, Finished):
                usages[choice] = event.usage
                done = [usages[n] for n in sorted(usages)] if len(usages) == len(choices) else ()
                yield data_event(encoder.closing(choice, event, positions[choice], done))
            elif chunk := encoder.piece(choice, event, positions[choice]):
                positions[choice].clear()
                yield data_event(chunk)
    if len(usages) == len(choices):
        yield DONE
        _note_outcome(trace, "success", list(usages.values()))


async def _traced(chunks: AsyncGenerator[bytes, None], trace: Trace) -> AsyncGenerator[bytes, None]:
    """Yield the chunks and record when the first and the last were written."""
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk
            trace.mark("response.first_write")
    trace.mark("response.final_write")


async def _fold(choices: Choices) -> list[Fold]:
    """Return the whole answers.

    Raises:
        EngineFailed: one of them broke off.
    """
    folds = [Fold() for _ in range(len(choices))]
    async with aclosing(choices.events()) as events:
        async for choice, event in events:
            folds[choice].add(event)
    if not all(fold.finished for fold in folds):
        raise EngineStopped("The answer was cancelled before it was done.")
    return folds


def _headers(warnings: tuple[str, ...]) -> dict[str, str]:
    """Return the warnings of an answer as a header, in printable ASCII."""
    text = "; ".join(warnings)
    if not text:
        return {}
    plain = text.encode("ascii", "backslashreplace").decode()
    printable = "".join(letter if letter.isprintable() else " " for letter in plain)
    return {"warning": printable[:_LONGEST_WARNING]}


async def _written(trace: Trace, folds: list[Fold]) -> None:
    """Finish the record of a whole answer: it has been sent."""
    trace.mark("response.first_write")
    trace.mark("response.final_write")
    _note_outcome(trace, "success", [fold.finished.usage for fold in folds if fold.finished])
    trace.finish()


def _note_outcome(trace: Trace | None, outcome: Outcome, usages: Sequence[Usage] = ()) -> None:
    if trace:
        trace.outcome = outcome
        for usage in usages:
            trace.add_engine(usage)
