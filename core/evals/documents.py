"""Documents for calibration and measurement, and their tokens. Imports no arrays.

A document is a text, a conversation, or a prompt with its completion, and belongs to a domain such
as `code`. Conversations go through the model's own chat template; where it has none, or the
template fails, they are written as text with the roles in front.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from itertools import islice, zip_longest
from random import Random
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from core.engine.bounded import OutOfTimeError, within
from core.engine.request import ChatPrompt
from core.engine.retelling import Retelling
from core.engine.template import fixed_date
from core.errors import BadModelFiles, BadRequest, UsageProblem
from core.fields import shown
from core.registry.files import printable
from core.rows.examples import (
    Completion,
    Conversation,
    PlainText,
    RowProblem,
    format_of,
    read_example,
)
from core.rows.files import BrokenRow, RawRow, read_rows
from core.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from core.engine.tokenizer import Tokenizer

MOST_BYTES = 64 * 2**20
"""The largest file of documents that is read, in bytes."""

_TEMPLATE_SECONDS = 20.0  # a template takes milliseconds; the first call also compiles it
_DATE = datetime(2025, 1, 1)  # templates write it: the tokens must not change every day
_BETWEEN = "\n\n"  # behind a plain text, as another may follow
_LONGEST_DOMAIN = 40  # characters
_SHOWN = 5  # broken rows that a sentence lists


@dataclass(frozen=True, kw_only=True)
class Document:
    """A piece of text with its domain."""

    domain: str
    """What kind of text it is, such as `code`; a user's rows without one are `text` or `chat`."""
    example: PlainText | Conversation | Completion
    """The text."""
    line: int
    """Its line in its file, from 1."""

    @property
    def pieces(self) -> tuple[str, ...]:
        """The texts as their authors wrote them: what is compared with other documents.

        Of a conversation these are the contents, the arguments of calls and the texts within tools;
        the JSON around them, which all conversations share, is not among them.
        """
        if isinstance(self.example, PlainText):
            return (self.example.text,)
        if isinstance(self.example, Completion):
            return (self.example.prompt, self.example.completion)
        return tuple(piece for piece in _conversation_pieces(self.example) if piece)

    @property
    def plain(self) -> str:
        """The document as plain text, with the roles in front of messages."""
        if isinstance(self.example, PlainText):
            return self.example.text
        if isinstance(self.example, Completion):
            return self.example.prompt + self.example.completion
        return _labelled(self.example)


@dataclass(frozen=True, kw_only=True)
class TokenRows:
    """Token sequences that documents were cut into."""

    rows: tuple[tuple[int, ...], ...]
    """Token ids, at least two in each sequence. The last one of a domain may be shorter."""
    domains: tuple[str, ...]
    """The domain of each sequence."""
    digest: str
    """SHA-256 of the documents' text, in hexadecimal: the same for every tokenizer and length."""
    notes: tuple[str, ...] = ()
    """What to know about them, one sentence each."""

    @property
    def tokens(self) -> int:
        """Number of tokens in all sequences."""
        return sum(map(len, self.rows))


def read_documents(file: Path) -> list[Document]:
    """Return the documents of a JSONL, CSV or Parquet file.

    Raises:
        NotFound: there is no such file.
        UsageProblem: it cannot be read, is too large, or has a row that cannot be used.
        BackendMissing: it is a Parquet file, and what reads them is not installed.
    """
    _refuse_special(file)
    documents: list[Document] = []
    broken: list[BrokenRow] = []
    characters = 0
    for row in read_rows(file):
        try:
            if isinstance(row, BrokenRow):
                broken.append(row)
                continue
            documents.append(_document(row))
        except RowProblem as problem:
            broken.append(BrokenRow(file=file.name, line=row.line, reason=str(problem)))
            continue
        characters += sum(map(len, documents[-1].pieces))
        _refuse_large(file, characters)  # Parquet files are compressed
    if broken:
        raise UsageProblem(_list_broken(broken), hint="Fix these rows, or delete them.")
    return documents


def digest_of(documents: Sequence[Document]) -> str:
    """Return the SHA-256 of the text of some documents, in hexadecimal."""
    hashed = sha256()
    for document in documents:
        text = json.dumps([document.domain, *_content(document.example)], sort_keys=True)
        hashed.update(text.encode() + b"\n")
    return hashed.hexdigest()


def token_rows(documents: Sequence[Document], tokenizer: Tokenizer, *, length: int) -> TokenRows:
    """Return documents as token sequences, domain by domain.

    The documents of a domain follow one another and are cut every `length` tokens, so a sequence
    may begin within a document. Where the tokenizer puts a token in front of every text (BOS),
    every sequence begins with it. A single token that is left over at the end is not used.

    Args:
        documents: at least one.
        tokenizer: the model's.
        length: tokens of a sequence, at least 8.

    Raises:
        BadModelFiles: the tokenizer makes tokens that the model does not have.
    """
    encoder = DocumentEncoder(tokenizer)
    by_domain: defaultdict[str, list[int]] = defaultdict(list)
    for document in documents:
        by_domain[document.domain].extend(encoder.encode(document))
    rows = {d: list(_cut(t, length, encoder.start)) for d, t in by_domain.items()}
    return TokenRows(
        rows=tuple(row for each in rows.values() for row in each),
        domains=tuple(domain for domain, each in rows.items() for _ in each),
        digest=digest_of(documents),
        notes=tuple(encoder.notes()),
    )


def choose_rows(rows: TokenRows, count: int) -> TokenRows:
    """Return the first sequences, taken from the domains in turn.

    Args:
        rows: all of them.
        count: how many, at least 1.
    """
    by_domain: defaultdict[str, list[int]] = defaultdict(list)
    for index, domain in enumerate(rows.domains):
        by_domain[domain].append(index)
    turns = (i for turn in zip_longest(*by_domain.values()) for i in turn if i is not None)
    return _some(rows, sorted(islice(turns, count)))


def sample_rows(rows: TokenRows, count: int, *, seed: int) -> TokenRows:
    """Return a random sample of sequences, in their order.

    Args:
        rows: all of them.
        count: how many; -1, or more than there are: all.
        seed: the same one chooses the same sequences.
    """
    if not 0 <= count < len(rows.rows):
        return rows
    return _some(rows, sorted(Random(seed).sample(range(len(rows.rows)), count)))


def _some(rows: TokenRows, indices: Sequence[int]) -> TokenRows:
    return replace(
        rows,
        rows=tuple(rows.rows[index] for index in indices),
        domains=tuple(rows.domains[index] for index in indices),
    )


class DocumentEncoder:
    """Turns documents into tokens.

    Attributes:
        start: the tokens that the tokenizer puts in front of every text; often none.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Take the model's tokenizer, with its chat template if it has one."""
        self._tokenizer = tokenizer
        self._retelling: Retelling | None = None
        self._failed: str | None = None if tokenizer.has_chat_template else "it has none"
        self._conversations = 0
        self._refused: list[str] = []
        empty = tokenizer.encode("", special=True)
        self.start = tuple(token for token in empty if token not in tokenizer.eos_ids)

    def encode(self, document: Document) -> list[int]:
        """Return the tokens of a document.

        Raises:
            BadModelFiles: some of them are not in the model's vocabulary.
        """
        text = self._through_template(document.example)
        if text is None:
            plain = document.plain.rstrip("\n") + _BETWEEN
            tokens = self._tokenizer.encode(plain, special=True)
        else:
            tokens = self._tokenizer.encode(text, special=False)
        if unknown := self._tokenizer.unknown(tokens):
            raise BadModelFiles(
                f"The tokenizer makes {unknown}.",
                hint="It does not belong to these weights: download the model again.",
            )
        return tokens

    def notes(self) -> Iterator[str]:
        """Yield what was done to the documents so far, one sentence each."""
        if self._refused:
            reason = self._refused[0]
            yield (
                f"{len(self._refused)} of {self._conversations} conversations are read as plain "
                f"text, because the chat template cannot render them: {reason}."
            )

    def _through_template(self, example: PlainText | Conversation | Completion) -> str | None:
        """Return a conversation as the chat template renders it; None: it is read as plain text."""
        if isinstance(example, PlainText):
            return None
        if isinstance(example, Completion):
            if not self._tokenizer.has_chat_template:
                return None
            example = _as_conversation(example)
        self._conversations += 1
        try:
            if self._failed:
                raise RowProblem(self._failed)
            return within(_TEMPLATE_SECONDS, lambda: self._rendered(example))
        except OutOfTimeError as problem:
            self._failed = str(problem)  # it would take as long every time
            reason = self._failed
        except (BadRequest, RowProblem) as problem:
            reason = str(problem)
        # Tools and calls of a user's file, in forms that a template's family may not expect.
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"
        self._refused.append(printable(" ".join(reason.split()), 200).rstrip("."))
        return None

    def _rendered(self, example: Conversation) -> str:
        if self._retelling is None:
            self._retelling = Retelling(self._tokenizer)
        messages = tuple(_without_marks(message) for message in example.messages)
        prompt = self._retelling.retell(ChatPrompt(messages=messages, tools=example.tools))
        with fixed_date(_DATE):
            text = self._tokenizer.render(prompt, generation_prompt=False)
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise RowProblem("it writes half a character")
        return text


def _cut(tokens: Sequence[int], length: int, start: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    at = 0
    while len(tokens) - at > (0 if start else 1):
        piece = tuple(tokens[at : at + length])
        if piece[: len(start)] != start:
            piece = (*start, *piece[: length - len(start)])
            at -= len(start)
        at += length
        if len(piece) > 1:
            yield piece


def _document(row: RawRow) -> Document:
    form = format_of(row.values)
    if form == "unknown":
        raise RowProblem("it has no 'text', no 'messages', and no 'prompt' with a 'completion'")
    if form == "dpo":
        raise RowProblem("it is a preference pair, of which no single text can be taken")
    example = read_example(row.values, form)
    assert isinstance(example, PlainText | Conversation | Completion)
    try:
        json.dumps(_content(example))
    except RecursionError:
        raise RowProblem("its JSON is nested too deeply") from None
    fallback = "text" if isinstance(example, PlainText) else "chat"
    return Document(domain=_domain(row.values, fallback), example=example, line=row.line)


def _domain(values: Mapping[str, Any], fallback: str) -> str:
    domain = values.get("domain", fallback)
    if not isinstance(domain, str) or not domain.isprintable() or not domain.strip():
        raise RowProblem(f"its 'domain' is {shown(domain)}; it must be a name")
    if len(domain) > _LONGEST_DOMAIN:
        raise RowProblem(f"its 'domain' is longer than {_LONGEST_DOMAIN} characters")
    return domain


def _conversation_pieces(example: Conversation) -> Iterator[str]:
    for message in example.messages:
        yield message["content"]
        for call in message.get("tool_calls") or ():
            yield json.dumps(call["function"]["arguments"], ensure_ascii=False)
    yield from _texts(example.tools)


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings within a JSON value."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting.extend(reversed(list(each.values())))
        elif isinstance(each, Sequence):
            waiting.extend(reversed(list(each)))


def _labelled(example: Conversation) -> str:
    lines = []
    if example.tools:
        lines.append(f"tools: {json.dumps(list(example.tools), ensure_ascii=False)}")
    for message in example.messages:
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        written = (json.dumps(call, ensure_ascii=False) for call in calls)
        said = "\n".join(part for part in (message["content"], *written) if part)
        lines.append(f"{message['role']}: {said}")
    return "\n".join(lines) + "\n"


def _as_conversation(example: Completion) -> Conversation:
    turns = (
        {"role": "user", "content": example.prompt},
        {"role": "assistant", "content": example.completion},
    )
    return Conversation(messages=turns)


def _without_marks(message: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what only a training looks at."""
    return {name: value for name, value in message.items() if name != "train"}


def _content(example: PlainText | Conversation | Completion) -> tuple[Any, ...]:
    if isinstance(example, PlainText):
        return (example.text,)
    if isinstance(example, Completion):
        return (example.prompt, example.completion)
    messages = [_without_marks(message) for message in example.messages]
    return (messages, list(example.tools))


def _refuse_special(file: Path) -> None:
    """Refuse what is too large, or would never end: a device, a named pipe."""
    try:
        status = file.stat()
    except (OSError, ValueError):  # `read_rows` says what is wrong
        return
    if not S_ISREG(status.st_mode):
        raise UsageProblem(
            f"{file} is not a regular file.", hint="Name a .jsonl, .csv or .parquet file."
        )
    _refuse_large(file, status.st_size)


def _refuse_large(file: Path, size: int) -> None:
    if size > MOST_BYTES:
        raise UsageProblem(
            f"{file} holds more than {format_bytes(MOST_BYTES)} of text.",
            hint="Use a part of it; a few thousand rows are plenty.",
        )


def _list_broken(broken: Sequence[BrokenRow]) -> str:
    named = [f"{row.file}, line {row.line}: {row.reason}" for row in broken[:_SHOWN]]
    if len(broken) > _SHOWN:
        named.append(f"and {len(broken) - _SHOWN} more")
    count = "One row" if len(broken) == 1 else f"{len(broken)} rows"
    return f"{count} cannot be used: {'; '.join(named)}."
