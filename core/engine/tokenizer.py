"""Text to tokens and back, and conversations to prompts, for any tokenizer that mlx-lm loads.

Safe to call from any thread: encoding happens in the caller's, decoding in the engine's.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from core.engine.infill import find_infill
from core.engine.slim import load_tokenizer
from core.engine.spelling import find_spelling, spelled_bytes
from core.engine.template import ChatTemplate
from core.engine.tokenizer_card import CardShelf, TokenizerCard, make_card
from core.errors import BadRequest
from core.fit.weights import local_tensors, vocabulary_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from core.engine.infill import InfillFormat
    from core.engine.request import ChatPrompt
    from core.engine.spelling import Spelling


_NAMED = 5  # ids that a message names


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A tokenizer's tokens, as they are spelled."""

    tokens: Mapping[str, int]
    """Their numbers by their spelling, added ones included; numbers may be missing."""
    special: frozenset[int]
    """Those that are control marks, and no text."""
    backend: str | None
    """The tokenizer as the `tokenizers` library writes it; None: it is none of that library."""


class Codec(Protocol):
    """Text to tokens and back."""

    def decode(self, tokens: Sequence[int], *, keep: frozenset[int]) -> str:
        """Return the text of tokens, special ones left out but for those to keep."""
        ...

    def token_id(self, token: str) -> int | None:
        """Return the number of a token of the vocabulary, or None."""
        ...

    def piece(self, token: int) -> str:
        """Return a token as the vocabulary spells it; empty: there is none of this number."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token stands for; empty: the id is unused."""
        ...

    def vocabulary(self) -> Vocabulary:
        """Return all tokens."""
        ...

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text, with special ones of the tokenizer's own if wanted."""
        ...


class Tokenizer:
    """The model's tokenizer and chat template.

    Attributes:
        eos_ids: tokens that end an answer.
        longest_token: bytes of the longest token; n bytes of text are at least n / that tokens.
        template: source of the chat templates; empty: there is none, or it is Python code.
        thinking: what `enable_thinking` is when a conversation does not say.
        size: ids that the model has, from 0; None: not known, and every id counts as one.
    """

    size: int | None = None

    def __init__(
        self,
        codec: Codec,
        render: Callable[..., str] | None,
        *,
        eos_ids: frozenset[int],
        longest_token: int,
        template: str = "",
        thinking: bool = False,
    ) -> None:
        """Take the parts.

        Args:
            codec: encodes and decodes.
            render: takes the messages and the template's variables; None: no chat template.
            eos_ids: see above.
            longest_token: see above.
            template: source of the chat templates, one after the other.
            thinking: what `enable_thinking` is when a conversation does not say.
        """
        self._codec = codec
        self.template = template
        self.thinking = thinking
        self._render = render
        self.eos_ids = eos_ids
        self.longest_token = longest_token

    @classmethod
    def load(cls, folder: Path, *, eos_ids: Any, shelf: CardShelf | None) -> Tokenizer:
        """Return the tokenizer of a model folder, limited to the ids that its weights have.

        Args:
            folder: the model's.
            eos_ids: what its config.json says; one, several or None.
            shelf: keeps what transformers made of the folder for the next start, or None.

        Raises:
            Exception: what transformers raises on files that it cannot use.
        """
        tokenizer = cls._load(folder, eos_ids, shelf)
        if (rows := vocabulary_rows(local_tensors(folder, needed=False))) is not None:
            tokenizer.limit(rows)
        return tokenizer

    @classmethod
    def _load(cls, folder: Path, eos_ids: Any, shelf: CardShelf | None) -> Tokenizer:
        if (card := shelf.find(folder) if shelf else None) is None:
            wrapper = load_tokenizer(folder, eos_ids)
            if (card := make_card(wrapper)) is None:
                return cls.wrapping(wrapper)
            if shelf:
                shelf.keep(folder, card)
        return cls.from_card(card)

    @classmethod
    def from_card(cls, card: TokenizerCard) -> Tokenizer:
        """Return the tokenizer that a card describes."""
        template = ChatTemplate(card.templates, card.special_tokens, thinking=card.thinking)
        template.prepare()
        return cls(
            _FastCodec(card.backend),
            template.render if card.templates else None,
            eos_ids=frozenset(card.eos_ids),
            longest_token=card.longest_token,
            template="\n".join(card.templates.values()),
            thinking=card.thinking,
        )

    @classmethod
    def wrapping(cls, wrapper: Any) -> Tokenizer:
        """Return a tokenizer that does what mlx-lm's wrapper does, Python code of its own too."""

        def render(messages: Sequence[Any], **variables: Any) -> str:
            text: str = wrapper.apply_chat_template(messages, tokenize=False, **variables)
            return text

        return cls(
            _WrappedCodec(wrapper),
            render if wrapper.has_chat_template else None,
            eos_ids=frozenset(wrapper.eos_token_ids),
            longest_token=max(len(token.encode()) for token in wrapper.get_vocab()),
            template=_sources(wrapper.chat_template),
            thinking=bool(wrapper.has_thinking),
        )

    def limit(self, size: int) -> None:
        """Leave out the ids that a model does not have: nothing can be looked up by them.

        Args:
            size: ids that it has, from 0.
        """
        self.size = size if self.size is None else min(size, self.size)
        self.eos_ids = frozenset(self.known(self.eos_ids))

    def known(self, tokens: Iterable[int]) -> list[int]:
        """Return the tokens that the model has, in their order."""
        return [token for token in tokens if self._has(token)]

    def unknown(self, tokens: Iterable[int]) -> str | None:
        """Say which tokens the model does not have; None: it has all."""
        missing = sorted({token for token in tokens if not self._has(token)})
        if not missing:
            return None
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        return (
            f"the token ids {', '.join(map(str, missing[:_NAMED]))}{more}, but this model's "
            f"vocabulary has the ids 0 to {(self.size or 0) - 1}"
        )

    def _has(self, token: int) -> bool:
        return token >= 0 and (self.size is None or token < self.size)

    @property
    def has_chat_template(self) -> bool:
        """Whether conversations can be rendered."""
        return self._render is not None

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return self._codec.decode(tokens, keep=frozenset())

    def decoder(self, keep: Iterable[str]) -> Callable[[Sequence[int]], str]:
        """Return `decode`, but one that shows some special tokens: markup that is to be read.

        Args:
            keep: their texts; those that are no tokens of this vocabulary do not matter.
        """
        ids = (self._codec.token_id(token) for token in keep)
        return partial(self._codec.decode, keep=frozenset(n for n in ids if n is not None))

    def token_id(self, token: str) -> int | None:
        """Return the number of a token that the model has, or None."""
        number = self._codec.token_id(token)
        return number if number is not None and self._has(number) else None

    def piece(self, token: int) -> str:
        """Return a token as the vocabulary spells it (`▁Hello`); empty: it has no such number."""
        return self._codec.piece(token)

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token stands for, marks included; empty: an unused id."""
        return self._codec.token_bytes(token)

    @cached_property
    def infill(self) -> InfillFormat | None:
        """The fill-in-the-middle form of the model, or None if it has none."""
        return find_infill(self.token_id)

    def vocabulary(self) -> Vocabulary:
        """Return all tokens. Takes some tens of milliseconds."""
        return self._codec.vocabulary()

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: any text.
            special: let the tokenizer add its own special tokens (BOS). True for raw text; a
                rendered conversation has them in its text already.
        """
        return self._codec.encode(text, special=special)

    def render(self, prompt: ChatPrompt, *, generation_prompt: bool = True) -> str:
        """Return the text of a conversation.

        Args:
            prompt: the conversation.
            generation_prompt: end where the assistant starts to speak.

        Raises:
            BadRequest: there is no chat template, or it refuses the conversation.
        """
        if self._render is None:
            raise BadRequest(
                "prompt build failed: this model has no chat template",
                field="messages",
                hint="Use /v1/completions or `mlxbun generate --raw` with it.",
            )
        # Templates concatenate the content of an assistant turn that only called tools.
        messages = [{**m, "content": m.get("content") or ""} for m in prompt.messages]
        try:
            return self._render(
                messages,
                add_generation_prompt=generation_prompt,
                **({"tools": list(prompt.tools)} if prompt.tools else {}),
                **prompt.template_kwargs,
            )
        # A template is a foreign program: whatever it raises, it refuses this conversation.
        except Exception as refusal:
            raise BadRequest(f"prompt build failed: {refusal}", field="messages") from refusal


class _FastCodec:
    """The Rust tokenizer: several times faster than the Python layer above it, and stateless."""

    def __init__(self, backend: str) -> None:
        from tokenizers import Tokenizer as Backend

        self._backend: Any = Backend.from_str(backend)
        # A folder may ask for these; a prompt is neither padded nor cut.
        self._backend.no_padding()
        self._backend.no_truncation()

    def decode(self, tokens: Sequence[int], *, keep: frozenset[int]) -> str:
        if keep:
            tokens = [t for t in tokens if t in keep or t not in self._special]
        text: str = self._backend.decode(list(tokens), skip_special_tokens=not keep)
        return text

    def token_id(self, token: str) -> int | None:
        number: int | None = self._backend.token_to_id(token)
        return number

    def piece(self, token: int) -> str:
        return self._backend.id_to_token(token) or ""

    def token_bytes(self, token: int) -> bytes:
        piece = self.piece(token)
        if token in self._added:
            return piece.encode()
        if self._spelling is None:
            return self.decode([token], keep=frozenset()).encode()
        return spelled_bytes(piece, self._spelling)

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(
            tokens=self._backend.get_vocab(with_added_tokens=True),
            special=self._special,
            backend=self._backend.to_str(),
        )

    @cached_property
    def _special(self) -> frozenset[int]:
        return frozenset(number for number, token in self._added.items() if token.special)

    @cached_property
    def _added(self) -> dict[int, Any]:
        added: dict[int, Any] = self._backend.get_added_tokens_decoder()
        return added

    @cached_property
    def _spelling(self) -> Spelling | None:
        decoder = self._backend.decoder
        return find_spelling(decoder and decoder.__getstate__())

    def encode(self, text: str, *, special: bool) -> list[int]:
        # A batch of one: unlike `encode`, it leaves the interpreter free for other threads.
        encodings = self._backend.encode_batch([text], add_special_tokens=special)
        ids: list[int] = encodings[0].ids
        return ids


class _WrappedCodec:
    """A tokenizer with Python of its own, which is not made for several threads."""

    def __init__(self, wrapper: Any) -> None:
        self._wrapper = wrapper
        self._lock = threading.Lock()

    def decode(self, tokens: Sequence[int], *, keep: frozenset[int]) -> str:
        with self._lock:
            # A model may have more ids than its tokenizer, and Python tokenizers fail on those.
            dropped = set(self._wrapper.all_special_ids) - keep if keep else set()
            tokens = [t for t in tokens if t in self._ids and t not in dropped]
            text: str = self._wrapper.decode(tokens, skip_special_tokens=not keep)
            return text

    def token_id(self, token: str) -> int | None:
        with self._lock:
            number: int | None = self._wrapper.get_vocab().get(token)
            return number

    def piece(self, token: int) -> str:
        with self._lock:
            known = token in self._ids
            return self._wrapper.convert_ids_to_tokens(token) or "" if known else ""

    @cached_property
    def _ids(self) -> frozenset[int]:
        return frozenset(self._wrapper.get_vocab().values())

    def token_bytes(self, token: int) -> bytes:
        # Code of its own may spell tokens in any way; what it decodes one to is always right, but
        # for tokens that are part of a character.
        with self._lock:
            special = token in self._wrapper.all_special_ids
        return (self.piece(token) if special else self.decode([token], keep=frozenset())).encode()

    def vocabulary(self) -> Vocabulary:
        with self._lock:
            inner = getattr(self._wrapper._tokenizer, "backend_tokenizer", None)
            return Vocabulary(
                tokens=dict(self._wrapper.get_vocab()),
                special=frozenset(self._wrapper.all_special_ids),
                backend=inner.to_str() if inner else None,
            )

    def encode(self, text: str, *, special: bool) -> list[int]:
        with self._lock:
            ids: list[int] = self._wrapper.encode(text, add_special_tokens=special)
            return list(ids)


def _sources(templates: Any) -> str:
    """Return the source of one chat template or of several by name."""
    if isinstance(templates, dict):
        return "\n".join(map(str, templates.values()))
    return templates or ""
