"""What a model can do, as far as its config.json and its chat template tell. Pure functions.

Both are foreign input: a value of the wrong kind counts as not told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Where multimodal configs keep the language model's part.
_INNER = ("text_config", "language_config", "llm_config", "thinker_config")
_CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
)
_VISION = (
    "vision_config",
    "visual",
    "vision_tower",
    "mm_vision_tower",
    "img_processor",
    "image_token_id",
    "image_token_index",
    "vision_start_token_id",
)
_AUDIO = (
    "audio_config",
    "audio_tower",
    "audio_encoder",
    "audio_token_id",
    "audio_token_index",
    "audio_start_token_id",
)
_TOOLS = re.compile(r"\btools\b")
_THINKING = re.compile(
    r"enable_thinking|reasoning_content|reasoning_effort|\.reasoning\b|\['reasoning'\]"
    r"|</?think(?:ing)?>|longcat_think|<\|think|\[/?THINK\]|<\|channel\|?>|\bthinking\b"
)
_LONGEST_WORD = 80


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a model can do."""

    context: int | None = None
    """Tokens that it was made for; None: not told."""
    vision: bool = False
    """Its config has a part that sees."""
    audio: bool = False
    """Its config has a part that hears."""
    chat: bool = False
    """It has a chat template."""
    tools: bool = False
    """Its chat template knows tools."""
    thinking: bool = False
    """Its chat template knows of reasoning before the answer."""


def read_abilities(config: Mapping[str, Any], template: str | None) -> Abilities:
    """Return what a model can do.

    Args:
        config: config.json.
        template: the text of its chat template or templates; None: it has none.
    """
    scopes = list(_scopes(config))
    contexts = (scope.get(key) for scope in scopes for key in _CONTEXT_KEYS)
    return Abilities(
        context=next((n for n in contexts if type(n) is int and 0 < n < 2**53), None),
        vision=_has_any(scopes, _VISION),
        audio=_has_any(scopes, _AUDIO),
        chat=template is not None,
        tools=bool(_TOOLS.search(template or "")),
        thinking=bool(_THINKING.search(template or "")),
    )


def model_type_of(config: Mapping[str, Any]) -> str | None:
    """Return the architecture's name: `llama`."""
    return _word(config.get("model_type"))


def architectures_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the classes that the config names: `LlamaForCausalLM`."""
    given = config.get("architectures")
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list):
        return ()
    return tuple(word for name in names[:8] if (word := _word(name)))


def template_in(tokenizer_config: Mapping[str, Any]) -> str | None:
    """Return the chat template in a tokenizer_config.json or chat_template.json; several as one."""
    given = tokenizer_config.get("chat_template")
    if isinstance(given, str):
        return given
    named = given if isinstance(given, list) else []
    texts = [each.get("template") for each in named if isinstance(each, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)) or None


def _scopes(config: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    yield config
    for key in _INNER:
        if depth < 2 and isinstance(inner := config.get(key), dict):
            yield from _scopes(inner, depth + 1)


def _has_any(scopes: list[Mapping[str, Any]], keys: tuple[str, ...]) -> bool:
    return any(scope.get(key) not in _NOTHING for scope in scopes for key in keys)


_NOTHING: tuple[Any, ...] = (None, False, "", {}, [])


def _word(value: Any) -> str | None:
    if not isinstance(value, str) or not value or len(value) > _LONGEST_WORD:
        return None
    return value if value.isprintable() else None
