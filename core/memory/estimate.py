"""How many tokens a text has, before any tokenizer is there. Pure."""

from __future__ import annotations

import re

_WIDE = re.compile(r"[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_CHARACTERS_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has.

    Four characters to a token; each Chinese, Japanese or Korean character is one. Tokenizers
    differ by a factor of about 1.5 in either direction.
    """
    wide = len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // _CHARACTERS_PER_TOKEN)
