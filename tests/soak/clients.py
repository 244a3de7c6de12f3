"""Clients for minutes: random lengths, stops, hang-ups and slow readers, all told by a seed."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.processes import Server

_STOPS = (None, "\n", ["the", "of"], "never there at all")


@dataclass(kw_only=True)
class Soak:
    """A crowd that asks one server until its time is over."""

    server: Server
    clients: int
    seconds: float
    longest_prompt: int
    """Words of the longest question."""
    most_tokens: int
    """Of an answer."""
    statuses: Counter[int] = field(default_factory=Counter)
    """How often each status came; 0: the client hung up before it."""
    broken: list[str] = field(default_factory=list)
    """Answers that were not what they should be."""

    def run(self) -> None:
        """Let the crowd in, and wait until it has left."""
        deadline = time.monotonic() + self.seconds
        threads = [
            threading.Thread(target=self._be_a_client, args=(random.Random(number), deadline))
            for number in range(self.clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.seconds + 120)
        self.broken += ["a client hangs"] * sum(thread.is_alive() for thread in threads)

    def _be_a_client(self, die: random.Random, deadline: float) -> None:
        where = urlsplit(self.server.url)
        while time.monotonic() < deadline:
            address = (where.hostname or "", where.port or 0)
            with socket.create_connection(address, timeout=100) as line:
                self._visit(line, die)

    def _visit(self, line: socket.socket, die: random.Random) -> None:
        stream = die.random() < 0.7
        line.sendall(self._request(die, stream=stream))
        patience = die.choice((0.0, 0.1, 1.0, None, None, None))  # None: to the end
        slow = die.random() < 0.1
        line.settimeout(patience + 0.01 if patience is not None else 100)
        seen = b""
        try:
            while piece := line.recv(64 if slow else 65536):
                seen += piece
                if slow:
                    time.sleep(0.02)
                if patience is not None and stream and b"data: " in seen:
                    break
        except TimeoutError:
            if patience is None:
                self.broken.append(f"no end after {seen[-200:]!r}")
        status = int(seen.split(b" ", 2)[1]) if seen.startswith(b"HTTP/1.1 ") else 0
        self.statuses[status] += 1
        if patience is None and status == 200 and not _is_whole(seen, stream=stream):
            self.broken.append(f"cut short: {seen[-200:]!r}")

    def _request(self, die: random.Random, *, stream: bool) -> bytes:
        words = die.choice((1, 5, 30, self.longest_prompt))
        wanted = {
            "messages": [{"role": "user", "content": "word " * words + str(die.random())}],
            "max_tokens": die.randrange(1, self.most_tokens),
            "temperature": die.choice((0, 0.8)),
            "top_p": die.choice((0, 0.9)),
            "stop": die.choice(_STOPS),
            "stream": stream,
        }
        body = json.dumps(wanted).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _is_whole(seen: bytes, *, stream: bool) -> bool:
    return (b"data: [DONE]" if stream else b'"finish_reason"') in seen
