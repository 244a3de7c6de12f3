"""What the protocol offers and this server cannot do yet: refused with a reason, never ignored."""

from __future__ import annotations

from commands.serve.wire.openai.sentences import quoted
from core.errors import BadRequest


def check_adapter(asked: str | None, mounted: str | None) -> None:
    """Refuse an adapter that a request's answer would not be given with.

    Args:
        asked: what the request names; `none`: to be answered without one; None: nothing.
        mounted: the one that all answers are given with, or None.

    Raises:
        BadRequest: naming the field.
    """
    if asked in (None, mounted) or (asked == "none" and mounted is None):
        return
    if asked == "none":
        given = quoted(str(mounted))
        raise BadRequest(
            f'adapter "none" cannot be chosen yet: all answers are given with {given}.',
            field="adapter",
        )
    raise BadRequest(
        f"adapter {quoted(str(asked))} is unknown: a request cannot choose one yet.",
        field="adapter",
    )
