"""One streaming client for every server: the same bytes out, the same clock in."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

_FILLER = (
    "The fox crossed the river at dawn and found the old mill empty, its wheel turning slowly "
    "in the cold water while the miller's children slept under the roof. "
)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One measured answer."""

    ttft: float
    """Seconds from the request to the first text."""
    total: float
    """Seconds from the request to the end."""
    prompt_tokens: int
    """As the server counted."""
    tokens: int
    """Tokens generated, as the server counted."""

    @property
    def decode_rate(self) -> float:
        """Tokens a second after the first."""
        return (self.tokens - 1) / (self.total - self.ttft) if self.tokens > 1 else 0.0

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens a second until the first text."""
        return self.prompt_tokens / self.ttft


def prompt(words: int, salt: str) -> str:
    """Return a prompt of about `words` words that asks for a long answer, new for each `salt`."""
    filler = (_FILLER * (words // 30 + 1)).split()[:words]
    return f"Story {salt}. {' '.join(filler)} Continue this story in great detail."


def ask(url: str, text: str, max_tokens: int) -> Reply:
    """Stream one greedy answer and measure it.

    Raises:
        httpx.HTTPError: the server refused or broke off.
    """
    body = {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.perf_counter()
    first = 0.0
    usage: dict[str, int] = {}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=600) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            has_text = any((c.get("delta") or {}).get("content") for c in event.get("choices", ()))
            if has_text and not first:
                first = time.perf_counter() - began
    return Reply(
        ttft=first,
        total=time.perf_counter() - began,
        prompt_tokens=usage["prompt_tokens"],
        tokens=usage["completion_tokens"],
    )


def ask_together(url: str, texts: list[str], max_tokens: int) -> float:
    """Stream all answers at once and return the tokens a second of all together."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(texts)) as pool:
        replies = list(pool.map(lambda text: ask(url, text, max_tokens), texts))
    return sum(reply.tokens for reply in replies) / (time.perf_counter() - began)
