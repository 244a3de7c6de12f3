"""Words of any script, folded so that spellings of one word compare equal. Pure.

Case, accents, Arabic and Hebrew vowel points, width and ligatures are folded. Scripts that write
without spaces, and Korean with its endings, become bigrams: 東京都 is 東京, 京都, 都. The last
character stands alone so that one character can be found as the beginning of a word. `+` and `#`
behind a word are words of their own, so that C++ and C# are not C.
"""

from __future__ import annotations

import re
import unicodedata

VERSION = 1
"""Raised with every change to what a text is cut into: an index of another version is rebuilt."""

LONGEST_WORD = 64
"""Characters of a word that count; longer ones compare equal if they begin alike."""

# Accents, Hebrew and Arabic points with tatweel, soft hyphen, joiners, variation selectors.
_DROPPED = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06ed\u00ad\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff]"
)
# Letters with a stroke or of two letters, which Unicode does not decompose.
_LETTERS = str.maketrans(
    {
        "\u0131": "i",
        "ł": "l",
        "ø": "o",
        "đ": "d",
        "ħ": "h",
        "ŧ": "t",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ð": "d",
    }
)
# Thai, Lao, Tibetan, Burmese, Khmer; kana, bopomofo, Han, Hangul with their extensions.
_UNSPACED = (
    "\u0e00-\u0e3a\u0e40-\u0e4e\u0e80-\u0ece\u0f00\u0f40-\u0fbc\u1000-\u1049\u1050-\u109f"
    "\u1780-\u17d3\u3005-\u3007\u3021-\u3029\u3041-\u3096\u3099-\u309a\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c"
    "\uac00-\ud7fb\u1100-\u11ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Vowel signs that Python does not count as letters: Cyrillic, Thaana, N'Ko, the scripts of India.
_SIGNS = (
    "\u0483-\u0487\u07a6-\u07b0\u07eb-\u07f3\u0900-\u0963\u0966-\u096f\u0971-\u0df3\u135d-\u135f"
)
_SYMBOLS = "$\u00a3\u00a5\u20a0-\u20cf\u2600-\u27bf\U0001f000-\U0001faff"
_WORD = re.compile(
    f"(?P<run>[{_UNSPACED}]+)"
    f"|(?P<word>(?:(?![{_UNSPACED}])(?:[^\\W_]|[{_SIGNS}]))+)"
    f"|(?<=[^\\W_]|[+#])[+#]"
    f"|[{_SYMBOLS}]"
)
_PLAIN = re.compile(r"[a-z0-9]+|(?<=[a-z0-9+#])[+#]|\$")


def fold(text: str) -> str:
    """Return a text in which spellings of one word are equal."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    # Composed again: a voiced kana and a Korean syllable are one character each.
    return unicodedata.normalize("NFC", _DROPPED.sub("", decomposed).translate(_LETTERS))


def tokens(text: str, *, whole: bool = True) -> list[str]:
    """Return the words of a text in order.

    Args:
        text: any text.
        whole: whether a last run of an unspaced script ends there. In a query it may continue, and
            its last character does not stand alone unless it is the only one.
    """
    folded = fold(text)
    if folded.isascii():
        return [word[:LONGEST_WORD] for word in _PLAIN.findall(folded)]
    found: list[str] = []
    last = ""
    for match in _WORD.finditer(folded):
        last = match["run"] or ""
        if last:
            found += [last[i : i + 2] for i in range(len(last))]
        else:
            found.append(match[0][:LONGEST_WORD])
    if not whole and len(last) > 1:
        found.pop()
    return found


def is_open(token: str) -> bool:
    """Return whether a query's last token is one character of an unspaced script.

    It is found at the beginning of bigrams.
    """
    return len(token) == 1 and re.match(f"[{_UNSPACED}]", token) is not None
