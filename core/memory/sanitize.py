"""Articles as they are shown to models and to programs that render them. Pure, linear time.

Remote images, raw HTML, comments, and invisible characters are dropped and counted; links,
footnotes and code stay. Anything else that could be read as HTML or as an image is escaped.
Renderers disagree about what is code, so blocks of code get fences that all of them read alike, and
`<b>` within a line becomes `< b>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.memory import lines
from core.memory.links import code_spans
from core.sessions.text import clean
from core.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

# Line breaks that Markdown does not know; text directions; stray joiners; tag characters.
_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\r\n?")
_UNSEEN = re.compile(
    "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?=[\s/>])[^<>]*>|<[!?][^<>]*>")
_COMMENT_END = "-->"
_COMMENT_CLOSING = re.compile("-->")
_AUTOLINK = re.compile(r"<((?:https?|mailto|ftp):[^\s<>]*)>")
# What is hidden: comments, and what is between the tags of programs and styles.
_SILENT = re.compile(
    r"<!--|<(script|style|iframe|object|svg|template|noscript)(?=[\s/>])", re.IGNORECASE
)
_IMAGE = re.compile(r"!\[([^\[\]]*)\]\(([^()]*)\)")
_REMOTE = re.compile(r"\s*<?\s*(?:[A-Za-z][A-Za-z0-9+.-]*:|//|\\\\|&)")
_LONGEST_RUN = 50
_LONG_RUN = re.compile(f"`{{{_LONGEST_RUN},}}")  # of backticks, longer than any fence
_OPENS_TAG = re.compile(r"<(?=[A-Za-z/!?])")


@dataclass(frozen=True, kw_only=True)
class Sanitized:
    """A text that can be shown."""

    text: str
    """What is left."""
    images: int = 0
    """Images that were dropped."""
    html: int = 0
    """HTML tags and comments that were dropped."""

    @property
    def note(self) -> str | None:
        """What was dropped, in one sentence; None: nothing that a reader would have seen."""
        parts = [
            counted(count, word)
            for count, word in ((self.images, "image"), (self.html, "HTML tag"))
            if count
        ]
        return f"Left out: {' and '.join(parts)}." if parts else None


def sanitize(text: str) -> Sanitized:
    """Return an article, or a part of one, without what it could do to those who show it."""
    counts = _Counts()
    plain = visible(text)
    return Sanitized(text="".join(_parts(plain, counts)), images=counts.images, html=counts.html)


def visible(text: str) -> str:
    """Return a text without controls and unseen characters, its lines ended by line feeds."""
    return _UNSEEN.sub("", clean(_LINE_ENDS.sub("\n", text)))


class _Counts:
    """What was dropped so far."""

    def __init__(self) -> None:
        self.images = 0
        self.html = 0


def _parts(text: str, counts: _Counts) -> Iterator[str]:
    """Yield blocks of code in plain fences, and what is between them without what is dropped."""
    position = 0
    block: _Block | None = None
    for line in lines.scan(text):
        in_code = line.kind in ("fence", "code")
        if block and not in_code:
            yield block.text()
            block = None
        if in_code:
            yield _prose(text[position : line.start], counts)
            position = line.end
            if line.kind == "code":
                block = block or _Block("")
                block.code.append(text[line.start : line.stop])
            elif block:
                yield block.text()
                block = None
            else:
                block = _Block(text[line.start : line.stop])
        elif line.kind == "comment":
            yield _prose(text[position : line.start], counts)
            end = text.find(_COMMENT_END, line.start, line.end)
            position = line.end if end < 0 else end + len(_COMMENT_END)
            counts.html += end >= 0 or line.end == len(text)
    yield block.text() if block else ""
    yield _prose(text[position:], counts)


class _Block:
    """A block of code.

    Attributes:
        code: its lines.
    """

    def __init__(self, fence: str) -> None:
        """Take the line that opens it; empty: it is indented."""
        self.code: list[str] = []
        language = re.search(r"[`~]{3,}[ \t]*([A-Za-z0-9+#.-]{1,30})", fence)
        self._language = language[1] if language else ""

    def text(self) -> str:
        """Return it between fences that are longer than what it holds."""
        code = _LONG_RUN.sub("`" * _LONGEST_RUN, "".join(f"{line}\n" for line in self.code))
        longest = max(map(len, re.findall("`+", code)), default=0)
        marker = "`" * max(longest + 1, 3)
        return f"{marker}{self._language}\n{code}{marker}\n"


def _prose(text: str, counts: _Counts) -> str:
    if "<" not in text and "![" not in text:
        return text
    pieces: list[str] = []
    position = 0
    for start, stop in _spans(text):
        code = _OPENS_TAG.sub("< ", text[start:stop]).replace("![", "! [")
        pieces += [_cleaned(text[position:start], counts), code]
        position = stop
    return "".join([*pieces, _cleaned(text[position:], counts)])


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the code between backticks, paragraph by paragraph."""
    start = 0
    for paragraph in re.split(r"(\n[ \t]*\n)", text):
        stop = start + len(paragraph)
        yield from code_spans(text, start, stop)
        start = stop


def _cleaned(text: str, counts: _Counts) -> str:
    text = _AUTOLINK.sub(r"\1", _without_silent(text, counts))
    text, tags = _TAG.subn("", text)
    counts.html += tags
    text = _IMAGE.sub(lambda match: _image(match, counts), text)
    # What is left opens no tag and shows no image, whatever dropping has put together.
    return _OPENS_TAG.sub("&lt;", text).replace("![", "[")


def _without_silent(text: str, counts: _Counts) -> str:
    """Drop comments, programs and styles; of an unclosed one, only the tag is dropped, later."""
    kept, position, unclosed = [], 0, set[str]()
    for match in _SILENT.finditer(text):
        name = (match[1] or "").lower()
        if match.start() < position or name in unclosed:
            continue
        closing = re.compile(f"</{name}[^<>]*>", re.IGNORECASE) if name else _COMMENT_CLOSING
        end = closing.search(text, match.end())
        if end is None:
            unclosed.add(name)
            continue
        kept.append(text[position : match.start()])
        counts.html += 1
        position = end.end()
    return "".join([*kept, text[position:]])


def _image(match: re.Match[str], counts: _Counts) -> str:
    alt, address = match.groups()
    if not _REMOTE.match(address):
        return f"[{alt}]({address})"
    counts.images += 1
    return f"(image: {alt.strip()})" if alt.strip() else "(image)"
