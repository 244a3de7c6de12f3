"""What the protocol offers and this server cannot do yet: refused with a reason, never ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.serve.wire.openai.sentences import quoted
from core.errors import BadRequest

if TYPE_CHECKING:
    from commands.serve.wire.openai.schema import SamplingFields


def refuse_unsupported(call: SamplingFields) -> None:
    """Raise for what is not there yet; a value that asks for nothing (`none`) passes.

    Raises:
        BadRequest: naming the field.
    """
    if call.adapter is not None and call.adapter != "none":
        raise BadRequest(
            f"adapter {quoted(call.adapter)} is unknown: a request cannot choose one yet.",
            field="adapter",
        )
