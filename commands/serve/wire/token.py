"""The Hugging Face token: whether there is one. The token itself is in no answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class TokenState(Struct, kw_only=True, rename="camel"):
    """The body of `GET` and `DELETE /api/settings/hf-token`."""

    ok: Literal[True] = True
    has_token: Annotated[bool, Meta(description="of ours, of HF_TOKEN or of `hf auth login`")]


class TokenEntry(Struct, kw_only=True):
    """What `POST /api/settings/hf-token` takes."""

    token: str
