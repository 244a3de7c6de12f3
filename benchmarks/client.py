"""One streaming client for every server: the same bytes out, the same clock in."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

import httpx

Message = dict[str, str]

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
    cached_tokens: int
    """Of them, those that were not computed again, as the server counted; 0 if it does not say."""
    tokens: int
    """Tokens generated, as the server counted."""
    text: str
    """What was answered."""
    arrivals: tuple[float, ...]
    """When each piece of text came, by the clock of `time.perf_counter`."""

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


def user(text: str) -> list[Message]:
    """Return a conversation of one message."""
    return [{"role": "user", "content": text}]


def ask(
    url: str, messages: Sequence[Message], max_tokens: int, stop: threading.Event | None = None
) -> Reply:
    """Stream one greedy answer and measure it.

    Args:
        url: the API's root.
        messages: the conversation.
        max_tokens: most tokens of the answer.
        stop: when it is set, the client hangs up.

    Raises:
        httpx.HTTPError: the server refused or broke off.
    """
    body = {
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.perf_counter()
    usage: dict[str, int] = {}
    details: dict[str, int] = {}
    pieces: list[str] = []
    arrivals: list[float] = []
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=600) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if stop is not None and stop.is_set():
                break
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            details = usage.get("prompt_tokens_details") or details  # type: ignore[assignment]
            texts = [(c.get("delta") or {}).get("content") for c in event.get("choices", ())]
            if text := "".join(filter(None, texts)):
                arrivals.append(time.perf_counter())
                pieces.append(text)
    return Reply(
        ttft=arrivals[0] - began if arrivals else 0.0,
        total=time.perf_counter() - began,
        prompt_tokens=usage.get("prompt_tokens", 0),
        cached_tokens=details.get("cached_tokens", 0),
        tokens=usage.get("completion_tokens", len(pieces)),
        text="".join(pieces),
        arrivals=tuple(arrivals),
    )


def ask_together(url: str, texts: list[str], max_tokens: int) -> float:
    """Stream all answers at once and return the tokens a second of all together."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(texts)) as pool:
        replies = list(pool.map(lambda text: ask(url, user(text), max_tokens), texts))
    return sum(reply.tokens for reply in replies) / (time.perf_counter() - began)


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """What a long prompt did to streams that ran."""

    usual: float
    """Seconds between two pieces of a stream before it came, at the median."""
    worst: float
    """The longest such gap of any stream while it was computed, in seconds."""
    prefill: float
    """Seconds until the long prompt's first text."""


def interrupt(url: str, words: int, salt: str, *, streams: int, settle: float) -> Interruption:
    """Let a long prompt arrive while others stream.

    Args:
        url: the API's root.
        words: length of the long prompt.
        salt: makes the prompts new.
        streams: answers that run.
        settle: seconds that they run before it comes.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(streams) as pool:
        running = [pool.submit(_talk, url, f"{salt} {number}", stop) for number in range(streams)]
        time.sleep(settle)
        began = time.perf_counter()
        long = ask(url, user(prompt(words, f"long {salt}")), 1)
        ended = time.perf_counter()
        time.sleep(0.5)
        stop.set()
        gaps = [gap for each in running for reply in each.result() for gap in _gaps(reply)]
    # The first half of the time before is left out: the streams' own prompts are computed in it.
    before = [gap for at, gap in gaps if began - settle / 2 < at and at + gap < began]
    during = [gap for at, gap in gaps if at < ended and at + gap > began]
    return Interruption(usual=median(before), worst=max(during), prefill=long.ttft)


def _talk(url: str, salt: str, stop: threading.Event) -> list[Reply]:
    """Ask again whenever an answer has ended, until `stop` is set."""
    replies: list[Reply] = []
    while not stop.is_set():
        text = prompt(5, f"stream {salt} {len(replies)}")
        replies.append(ask(url, user(text), 4000, stop))
    return replies


def _gaps(reply: Reply) -> list[tuple[float, float]]:
    """Return (when it began, how long it was) for each wait between two pieces."""
    pairs = zip(reply.arrivals, reply.arrivals[1:], strict=False)
    return [(first, second - first) for first, second in pairs]
