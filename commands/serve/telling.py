"""What a server says of itself: sentences for people, one JSON line for programs."""

from __future__ import annotations

import os
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, Any

from commands._shared.console import ReaderGone
from core.errors import MlxbunError

if TYPE_CHECKING:
    from commands._shared.console import Console
    from core.engine.info import ComputeInfo, ModelInfo


class Telling:
    """Tells how a server fares. Whether anybody listens makes no difference to the server."""

    def __init__(self, console: Console, *, drain_timeout: float) -> None:
        """Prepare.

        Args:
            console: the output.
            drain_timeout: seconds that running answers get in the end.
        """
        self._console = console
        self._drain_timeout = drain_timeout

    def listening(self, info: ModelInfo, compute: ComputeInfo, base: str) -> None:
        """Say what is served, how it computes and how to try it."""
        if self._console.json_mode:
            self._event("listening", url=base, pid=os.getpid(), **_about(info, compute))
            return
        note = self._console.note
        note(f"{info.model_id}: {info.quantization}, loaded as {info.loaded_as}")
        blas = "" if compute.blas == "-" else f", blas {compute.blas}"
        note(f"computes on {compute.device}{blas}")
        for sentence in compute.notes:
            note(f"  {sentence}")
        if reason := info.batching.serial_reason:
            note("answers one request at a time, whatever --batch says")
            note(f"  {reason}")
        note(f"listening on {base}")
        note(f"  {_example(info, base)}")

    def draining(self, running: int) -> None:
        """Say that the server ends, and what it waits for."""
        if self._console.json_mode:
            self._event("draining", running=running)
            return
        answers = "1 answer is" if running == 1 else f"{running} answers are"
        after = f" when {answers} done; press Ctrl-C again to end at once" if running else ""
        self._console.note(f"stopping{after}")

    def cut(self, running: int) -> None:
        """Say that answers did not come to their end."""
        if self._console.json_mode:
            self._event("cut", running=running)
            return
        answers = "1 answer was" if running == 1 else f"{running} answers were"
        self._console.note(
            f"{answers} cut off after {self._drain_timeout:g} seconds (--drain-timeout)"
        )

    def done(self) -> None:
        """Say that the server has ended."""
        if self._console.json_mode:
            self._event("done")

    def _event(self, name: str, **more: Any) -> None:
        with suppress(ReaderGone, MlxbunError):
            self._console.event({"event": name, **more})


def _about(info: ModelInfo, compute: ComputeInfo) -> dict[str, Any]:
    return {
        "model": info.model_id,
        "folder": info.folder,
        "quantization": info.quantization,
        "loaded_as": info.loaded_as,
        "context": info.context_window,
        "chat": info.has_chat_template,
        "device": compute.device,
        "blas": compute.blas,
        "notes": [*compute.notes, *info.notes],
        "lane": info.batching.lane,
        "lane_reason": info.batching.serial_reason,
    }


def _example(info: ModelInfo, base: str) -> str:
    """Return a command that asks the server."""
    path, body = ("/v1/completions", '{"prompt": "Once upon a time", "max_tokens": 64}')
    if info.has_chat_template:
        path = "/v1/chat/completions"
        asked = '"messages": [{"role": "user", "content": "What is the capital of France?"}]'
        body = f'{{{asked}, "temperature": 0}}'
    return f"curl {quote(base + path)} -H 'content-type: application/json' -d '{body}'"
