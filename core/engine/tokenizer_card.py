"""What of a tokenizer has to be known to use it, and where it is kept between starts.

transformers builds a tokenizer from a dozen files by rules of its own, and takes about a second
and a half to be imported and do it. The outcome is small and plain: it is kept in our cache under a
hash of everything that it was made from, and the next start reads it with the `tokenizers` library
alone. A card that is damaged or cannot be written is as good as none.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from core.paths import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

_FORM = 1
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pth", ".npz")
_MADE_BY = ("transformers", "tokenizers", "mlx-lm")


@dataclass(frozen=True, kw_only=True)
class TokenizerCard:
    """A tokenizer and its chat templates, as plain values."""

    backend: str
    """The tokenizer, as the `tokenizers` library writes it."""
    templates: dict[str, str]
    """Chat templates by name; empty: there is none."""
    special_tokens: dict[str, str]
    """Special tokens by the names that templates use."""
    eos_ids: list[int]
    """Tokens that end an answer."""
    longest_token: int
    """Bytes of the longest token."""
    thinking: bool
    """Whether the model has a reasoning channel."""


def make_card(wrapper: Any) -> TokenizerCard | None:
    """Return the card of what `mlx_lm.utils.load_tokenizer` made.

    None: the tokenizer does more than its card could say (Python code of its own).
    """
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

    inner = wrapper._tokenizer
    kind = type(inner)
    plain = (
        wrapper._chat_template is None
        and isinstance(inner, PreTrainedTokenizerFast)
        and kind.apply_chat_template is PreTrainedTokenizerBase.apply_chat_template
        and kind.encode is PreTrainedTokenizerFast.encode
        and kind.decode is PreTrainedTokenizerFast.decode
    )
    if not plain:
        return None
    templates = inner.chat_template or {}
    return TokenizerCard(
        backend=inner.backend_tokenizer.to_str(),
        templates={"default": templates} if isinstance(templates, str) else dict(templates),
        special_tokens={name: str(token) for name, token in inner.special_tokens_map.items()},
        eos_ids=sorted(wrapper.eos_token_ids),
        longest_token=max(len(token.encode()) for token in inner.get_vocab()),
        thinking=bool(wrapper.has_thinking),
    )


class CardShelf:
    """The cards that are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, model: Path) -> TokenizerCard | None:
        """Return the card of a model folder, if it was made from these very files."""
        try:
            fields = json.loads(self._place(model).read_bytes())
            card = TokenizerCard(**fields)
        except (OSError, ValueError, TypeError):
            return None
        return card if _is_sound(card) else None

    def keep(self, model: Path, card: TokenizerCard) -> None:
        """Keep a card, if that is possible."""
        try:
            with atomic_write(self._place(model)) as file:
                file.write(json.dumps(asdict(card)).encode())
        except OSError:
            return

    def _place(self, model: Path) -> Path:
        return self._folder / f"{_fingerprint(model)}.json"


def _fingerprint(model: Path) -> str:
    """Return a hash of all that a tokenizer may be made from.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256(repr((_FORM, [version(name) for name in _MADE_BY])).encode())
    files = (f for f in model.iterdir() if f.suffix not in _WEIGHTS and f.is_file())
    for file in sorted(files):
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:40]


def _is_sound(card: TokenizerCard) -> bool:
    kinds = {
        "backend": str,
        "templates": dict,
        "special_tokens": dict,
        "eos_ids": list,
        "longest_token": int,
        "thinking": bool,
    }
    return all(isinstance(getattr(card, name), kind) for name, kind in kinds.items())
