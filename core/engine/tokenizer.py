"""Text to tokens and back, and conversations to prompts, for any tokenizer that mlx-lm loads.

Safe to call from any thread: encoding happens in the caller's, decoding in the engine's.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.request import ChatPrompt


class Tokenizer:
    """The model's tokenizer and chat template.

    Attributes:
        eos_ids: tokens that end an answer.
        has_chat_template: whether conversations can be rendered.
        longest_token: bytes of the longest token; n bytes of text are at least n / that tokens.
    """

    def __init__(self, wrapper: Any) -> None:
        """Wrap what `mlx_lm.utils.load_tokenizer` returns."""
        self._wrapper = wrapper
        self._lock = threading.Lock()
        # The Rust tokenizer is free of the Python layer's state and several times faster.
        self._fast = getattr(wrapper, "backend_tokenizer", None)
        self.eos_ids: frozenset[int] = frozenset(wrapper.eos_token_ids)
        self.has_chat_template: bool = bool(wrapper.has_chat_template)
        self.longest_token: int = max(len(t.encode()) for t in wrapper.get_vocab())

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        if self._fast is not None:
            text: str = self._fast.decode(list(tokens), skip_special_tokens=True)
            return text
        with self._lock:
            decoded: str = self._wrapper.decode(list(tokens), skip_special_tokens=True)
            return decoded

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: any text.
            special: let the tokenizer add its own special tokens (BOS). True for raw text; a
                rendered conversation has them in its text already.
        """
        if self._fast is not None:
            # A batch of one: unlike `encode`, it leaves the interpreter free for other threads.
            encodings = self._fast.encode_batch([text], add_special_tokens=special)
            ids: list[int] = encodings[0].ids
            return ids
        with self._lock:
            encoded: list[int] = self._wrapper.encode(text, add_special_tokens=special)
            return list(encoded)

    def render(self, prompt: ChatPrompt, *, generation_prompt: bool = True) -> str:
        """Return the text of a conversation.

        Args:
            prompt: the conversation.
            generation_prompt: end where the assistant starts to speak.

        Raises:
            BadRequest: there is no chat template, or it refuses the conversation.
        """
        if not self.has_chat_template:
            raise BadRequest(
                "prompt build failed: this model has no chat template",
                field="messages",
                hint="Use /v1/completions or `mlxbun generate --raw` with it.",
            )
        # Templates concatenate the content of an assistant turn that only called tools.
        messages = [{**m, "content": m.get("content") or ""} for m in prompt.messages]
        try:
            text: str = self._wrapper.apply_chat_template(
                messages,
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **prompt.template_kwargs,
            )
        # A template is a foreign program: whatever it raises, it refuses this conversation.
        except Exception as refusal:
            raise BadRequest(f"prompt build failed: {refusal}", field="messages") from refusal
        return text
