"""Fields that clients send and this server does not support: refused, or named in a warning.

Fields without effect on the answer (`user`, `metadata`, `store`, `service_tier`, `seed` of caches,
hints on speed) are ignored in silence, and so are fields that no well-known server has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commands.serve.wire.openai.sentences import quoted
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OFF: tuple[Any, ...] = (None, False, 0, "", [], {})

# Fields that would change the answer, each with the values that ask for nothing, beside `_OFF`.
# A dot stands for a field within an object.
_EVERYWHERE: dict[str, tuple[Any, ...]] = {
    # vLLM, SGLang
    "allowed_token_ids": (),
    "bad_words": (),
    "custom_logit_processor": (),
    "ebnf": (),
    "guided_whitespace_pattern": (),
    "include_stop_str_in_output": (),
    "length_penalty": (1,),
    "logits_processors": (),
    "logprob_token_ids": (),
    "min_new_tokens": (),
    "no_stop_trim": (),
    "prompt_logprobs": (),
    "regex": (),
    "repetition_detection": (),
    "return_hidden_states": (),
    "return_token_ids": (),
    "return_tokens_as_token_ids": (),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "stop_regex": (),
    "structural_tag": (),
    "truncate_prompt_tokens": (-1,),
    "use_beam_search": (),
    "vllm_xargs": (),
    "watermarking": (),
    # llama.cpp and the samplers of its kin
    "ban_eos_token": (),
    "dry_multiplier": (),
    "dynatemp_range": (),
    "dynamic_temperature": (),
    "encoder_repetition_penalty": (1,),
    "epsilon_cutoff": (),
    "eta_cutoff": (),
    "grammar_lazy": (),
    "grammar_triggers": (),
    "guidance_scale": (1,),
    "lora": (),
    "min_keep": (),
    "mirostat": (),
    "mirostat_mode": (),
    "n_indent": (),
    "n_keep": (-1,),
    "n_predict": (-1,),
    "n_probs": (),
    "negative_prompt": (),
    "no_repeat_ngram_size": (),
    "penalty_alpha": (),
    "post_sampling_probs": (),
    "repeat_last_n": (64,),
    "repeat_penalty": (1,),
    "response_fields": (),
    "return_progress": (),
    "return_tokens": (),
    "samplers": (),
    "smoothing_factor": (),
    "t_max_predict_ms": (-1,),
    "temperature_last": (),
    "tfs": (1,),
    "tfs_z": (1,),
    "timings_per_token": (),
    "top_a": (),
    "top_n_sigma": (-1,),
    "typical_p": (1,),
    # Ollama
    "context": (),
    "images": (),
    "num_ctx": (),
    "num_predict": (-1,),
    "options": (),
    "raw": (),
    "system": (),
    "template": (),
    "think": (),
    # mlx_lm.server
    "adapters": (),
    "role_mapping": (),
}
_IN_CHATS: dict[str, tuple[Any, ...]] = {
    # OpenAI
    "audio": (),
    "modalities": (["text"],),
    "moderation": (),
    "verbosity": ("medium",),
    "web_search_options": (),
    # OpenAI's completions
    "best_of": (1,),
    "echo": (),
    "prompt": (),
    "suffix": (),
    # vLLM, SGLang
    "add_generation_prompt": (True,),
    "add_special_tokens": (),
    "chat_template": (),
    "continue_final_message": (),
    "documents": (),
    "include_reasoning": (True,),
    "separate_reasoning": (True,),
    "thinking_token_budget": (-1,),
    # llama.cpp
    "parse_tool_calls": (True,),
    "reasoning_format": ("auto", "deepseek", "deepseek-legacy"),
    "reasoning_in_content": (),
    # OpenRouter, DeepSeek, DashScope
    "enable_thinking": (),
    "plugins": (),
    "reasoning.enabled": (True,),
    "reasoning.exclude": (),
    "reasoning.max_tokens": (),
    "reasoning.summary": (),
    "thinking": (),
    "transforms": (),
}
_IN_COMPLETIONS: dict[str, tuple[Any, ...]] = {
    "add_special_tokens": (True,),
    "best_of": (1,),
    "chat_template_kwargs": (),
    "functions": (),
    "messages": (),
    "prompt_embeds": (),
    "reasoning": (),
    "reasoning_effort": ("none",),
    "thinking_budget": (),
    "tools": (),
}
# Fields whose empty, false or zero values ask for something, too.
_OFF_COUNTS = frozenset(
    (
        "enable_thinking",
        "prompt_logprobs",
        "think",
        "thinking_budget",
        "thinking_token_budget",
        "web_search_options",
    )
)


def ignored_fields(raw: Mapping[str, Any], *, chat: bool) -> tuple[str, ...]:
    """Return a warning that names the fields that would change the answer and are ignored, if any.

    Args:
        raw: the request's fields without nulls.
        chat: whether it is a chat; else a completion.
    """
    table = _EVERYWHERE | (_IN_CHATS if chat else _IN_COMPLETIONS)
    names = sorted(name for name in _asked(raw, table) if not _is_honoured(name, raw))
    return (f"not supported and ignored: {', '.join(names)}",) if names else ()


def _asked(raw: Mapping[str, Any], table: Mapping[str, tuple[Any, ...]]) -> Iterator[str]:
    for name, defaults in table.items():
        outer, _, inner = name.partition(".")
        value = raw.get(outer)
        if inner:
            value = value.get(inner) if isinstance(value, dict) else None
        if value is not None and not _is_default(name, value, defaults):
            yield name


def _is_default(name: str, value: Any, defaults: tuple[Any, ...]) -> bool:
    counts = name in _OFF_COUNTS or any(one is True for one in defaults)
    return any(_same(value, one) for one in (defaults if counts else (*defaults, *_OFF)))


def _same(value: Any, other: Any) -> bool:
    """Compare as JSON does: in Python, true is 1."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _is_honoured(name: str, raw: Mapping[str, Any]) -> bool:
    """Return whether the answer is as requested although the field is not supported."""
    return name == "best_of" and raw["best_of"] == raw.get("n", 1)


def check_adapter(asked: str | None, mounted: str | None) -> None:
    """Refuse an adapter that a request's answer would not be given with.

    Args:
        asked: what the request names; `none`: to be answered without one; None: nothing.
        mounted: the one that all answers are given with, or None.

    Raises:
        BadRequest: naming the field.
    """
    if asked in (None, mounted) or (asked == "none" and mounted is None):
        return
    if asked == "none":
        given = quoted(str(mounted))
        raise BadRequest(
            f'adapter "none" cannot be chosen yet: all answers are given with {given}.',
            field="adapter",
        )
    raise BadRequest(
        f"adapter {quoted(str(asked))} is unknown: a request cannot choose one yet.",
        field="adapter",
    )
