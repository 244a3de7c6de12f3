"""The bytes that tokens stand for, from how their tokenizer spells them. Pure.

Byte-level vocabularies (GPT-2) spell each byte as a printable character; SentencePiece ones spell a
space as U+2581 and single bytes as `<0x0A>`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Spelling = Literal["bytes", "sentencepiece"]

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


def find_spelling(decoder: bytes | None) -> Spelling | None:
    """Return how a tokenizer spells its tokens, or None: in another way.

    Args:
        decoder: its decoder as the `tokenizers` library serializes it, JSON; None: it has none.
    """
    if decoder is None:
        return None
    parts = list(_parts(json.loads(decoder)))
    kinds = {part.get("type") for part in parts}
    if "ByteLevel" in kinds:
        return "bytes"
    replaces = any(part.get("pattern") == {"String": _SPACE} for part in parts)
    return "sentencepiece" if replaces or kinds & {"ByteFallback", "Metaspace"} else None


def _parts(decoder: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a decoder and those that it consists of."""
    yield decoder
    for part in decoder.get("decoders", ()):
        yield from _parts(part)


def spelled_bytes(piece: str, spelling: Spelling) -> bytes:
    """Return the bytes of a token that is not an added one, which stands for itself."""
    if spelling == "sentencepiece":
        byte = _BYTE.fullmatch(piece)
        return bytes.fromhex(byte[1]) if byte else piece.replace(_SPACE, " ").encode()
    stand_ins = _stand_ins()
    if not all(character in stand_ins for character in piece):
        return piece.encode()
    return bytes(stand_ins[character] for character in piece)


@cache
def _stand_ins() -> dict[str, int]:
    """Return the byte for each printable character that GPT-2 spells one with."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {
        chr(256 + place): byte for place, byte in enumerate(rest)
    }
