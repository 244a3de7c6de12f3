"""From a conversation or a text to the tokens of a prompt. Runs in the caller's thread; no arrays.

For models whose KV cannot be cut afterwards it also finds where to take it: at the end of the
system messages and before the generation prompt, the beginnings that later prompts will share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.engine.infill import infill_tokens
from core.engine.request import ChatPrompt, TextPrompt
from core.errors import BadRequest, ContextTooLong

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.engine.tokenizer import Tokenizer


# Characters enough for the mark that opens a reasoning channel, and white space.
_ENDING = 100


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A prompt as the model reads it."""

    tokens: list[int]
    """Its token ids; never empty."""
    boundaries: tuple[int, ...]
    """Lengths at which its KV is worth keeping, ascending; empty: it can be cut anywhere."""
    ending: str = ""
    """The last characters of a rendered conversation: what the answer goes on from."""


class PromptBuilder:
    """Renders and tokenizes within the model's context."""

    def __init__(
        self, tokenizer: Tokenizer, *, context: int, window: int, find_boundaries: bool
    ) -> None:
        """Take the model's side.

        Args:
            tokenizer: of the model.
            context: tokens that prompt and answer may have together here.
            window: tokens that the model was made for; at least `context`.
            find_boundaries: whether to find the lengths at which KV is worth keeping.
        """
        self._tokenizer = tokenizer
        self._context = context
        self._window = window
        self._find_boundaries = find_boundaries

    def build(self, prompt: ChatPrompt | TextPrompt) -> Prompt:
        """Return the prompt's tokens.

        Raises:
            BadRequest: the chat template refuses the conversation, or there is none; or the prompt
                has tokens that the model does not have.
            ContextTooLong: they leave no token to generate.
        """
        if isinstance(prompt, TextPrompt):
            tokens = self._continued(prompt)
            self._refuse_unknown(tokens, "prompt")
            return Prompt(tokens=tokens, boundaries=())
        text = self._tokenizer.render(prompt)
        tokens = self._encode(text, special=False)
        self._refuse_unknown(tokens, "messages")
        boundaries = self._boundaries(prompt, tokens) if self._find_boundaries else ()
        return Prompt(tokens=tokens, boundaries=boundaries, ending=text[-_ENDING:])

    def _continued(self, prompt: TextPrompt) -> list[int]:
        """Return the tokens of a text, with its suffix where the model can fill a gap."""
        tokenizer, infill = self._tokenizer, self._tokenizer.infill
        if not prompt.suffix or infill is None:
            return self._encode(prompt.text, special=True)
        self._encode(prompt.text + prompt.suffix, special=False)  # is it too long?
        inner = infill_tokens(
            prompt.text,
            prompt.suffix,
            infill,
            encode=lambda text: tokenizer.encode(text, special=False),
            token_id=tokenizer.token_id,
        )
        starts = [n for n in tokenizer.encode("", special=True) if n not in tokenizer.eos_ids]
        tokens = [*starts, *inner]
        self._check(len(tokens))
        return tokens

    def _encode(self, text: str, *, special: bool) -> list[int]:
        # Whoever sends a book learns that it is too long without our tokenizing the book.
        at_least = len(text) // self._tokenizer.longest_token
        fits = at_least < self._context
        tokens = self._tokenizer.encode(text, special=special) if fits else []
        self._check(len(tokens) or at_least, exact=bool(tokens))
        return tokens or [self._first_token()]  # a text may tokenize to nothing

    def _check(self, count: int, *, exact: bool = True) -> None:
        """Refuse a prompt that leaves no token to generate."""
        if count >= self._context:
            raise self._too_long(count, exact=exact)

    def _first_token(self) -> int:
        if not self._tokenizer.eos_ids:
            raise BadRequest("The prompt has no tokens.", field="prompt")
        return min(self._tokenizer.eos_ids)

    def _refuse_unknown(self, tokens: list[int], field: str) -> None:
        """Refuse what would be read past the end of the model's embedding."""
        if unknown := self._tokenizer.unknown(tokens):
            raise BadRequest(
                f"The prompt has {unknown}.",
                field=field,
                hint="The tokenizer does not belong to these weights: download the model again.",
            )

    def _too_long(self, count: int, *, exact: bool) -> ContextTooLong:
        """Return the error for a prompt; clients recognise the first sentence (OpenAI's own)."""
        message = (
            f"This model's maximum context length is {self._context} tokens. However, the prompt "
            f"has {'' if exact else 'at least '}{count} tokens, and the answer needs at least one "
            "more."
        )
        if self._context == self._window:
            return ContextTooLong(message, prompt_tokens=count, limit=self._context)
        return ContextTooLong(
            f"{message} The limit comes from the memory budget, not from the model.",
            prompt_tokens=count,
            limit=self._context,
            hint="Shorten the prompt or raise --memory-budget.",
        )

    def _boundaries(self, prompt: ChatPrompt, tokens: list[int]) -> tuple[int, ...]:
        found = set()
        system = [m for m in prompt.messages if m["role"] == "system"]
        if system and len(system) < len(prompt.messages):
            # Another conversation with the same system messages: what both begin with.
            other = [*system, {"role": "user", "content": ""}]
            found.add(self._shared(tokens, prompt, other, generate=True))
        found.add(self._shared(tokens, prompt, prompt.messages, generate=False))
        return tuple(sorted(found - {0}))

    def _shared(
        self,
        tokens: list[int],
        prompt: ChatPrompt,
        messages: Sequence[Mapping[str, Any]],
        *,
        generate: bool,
    ) -> int:
        """Return how many tokens the prompt shares with another rendering of it."""
        variant = replace(prompt, messages=tuple(messages))
        text = self._tokenizer.render(variant, generation_prompt=generate)
        return _common_prefix(tokens, self._tokenizer.encode(text, special=False))


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
