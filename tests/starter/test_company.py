"""Eight clients at once get the answers that each would get alone.

Rows that run together are padded and multiplied together, which rounds the last bits of a logit
differently. Where the two likeliest tokens are closer than that, either is the right one; the test
counts these ties and lets no other difference pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes import Server, serving

pytestmark = pytest.mark.starter

QUESTIONS = (
    "What is the capital of France?",
    "Name three colours.",
    "Write one sentence about the sea.",
    "What is 2 plus 2?",
    "Say hello in Spanish.",
    "What do bees make?",
    "Who wrote Hamlet?",
    "Which of these words is the shortest? " + "elephant, cat, mountain, river, " * 12,
)
TOKENS = 24
TIE = 1e-4


@pytest.fixture
def serial_server(starter_environ: dict[str, str], tmp_path: Path) -> Iterator[Server]:
    """Start a server that runs one row at a time and remembers no prompt."""
    alone = ("--batch", "1", "--prompt-cache", "0")
    log = tmp_path / "stderr"
    with serving("starter", *alone, environ=starter_environ, log=log) as server:
        yield server


def test_each_gets_its_own_answer(
    server: Server,
    serial_server: Server,
    starter_folder: Path,
    record_property: Callable[[str, object], None],
) -> None:
    # First together, while the prompts are new, so that they are computed in one batch too.
    together = _at_once(server)
    again = _at_once(server)  # now their beginnings come from the prompt cache
    alone = [_answer(serial_server, question) for question in QUESTIONS]
    assert "Paris" in alone[0]
    assert len(set(alone)) == len(alone)
    ties = 0
    for question, right, *others in zip(QUESTIONS, alone, together, again, strict=True):
        for other in {*others} - {right}:
            assert _gap_where_they_part(starter_folder, question, right, other) < TIE
            ties += 1
    record_property("ties", ties)
    print(f"{ties} of {2 * len(QUESTIONS)} answers differ at a tie")  # noqa: T201


def _answer(server: Server, question: str) -> str:
    text: str = server.ask(question, max_tokens=TOKENS)["choices"][0]["message"]["content"]
    return text


def _at_once(server: Server) -> list[str]:
    with ThreadPoolExecutor(len(QUESTIONS)) as clients:
        return list(clients.map(lambda question: _answer(server, question), QUESTIONS))


def _gap_where_they_part(folder: Path, question: str, left: str, right: str) -> float:
    """Return how far apart the two likeliest tokens are where two greedy answers first differ.

    The model itself follows what the answers share, one token at a time.
    """
    import mlx.core as mx
    from mlx_lm import load
    from mlx_lm.models.cache import make_prompt_cache
    from mlx_lm.utils import dequantize_model

    model, tokenizer = load(str(folder))
    model.set_dtype(mx.float32)
    model = dequantize_model(model)
    asked = [{"role": "user", "content": question}]
    tokens: Sequence[int] = tokenizer.apply_chat_template(asked, add_generation_prompt=True)
    cache: list[Any] = make_prompt_cache(model)
    said: list[int] = []
    for _ in range(TOKENS):
        logits = np.array(model(mx.array([tokens]), cache=cache)[0, -1])
        second, likeliest = (int(token) for token in np.argsort(logits)[-2:])
        said.append(likeliest)
        text = tokenizer.decode(said).rstrip("\ufffd")
        if not (left.startswith(text) and right.startswith(text)):
            return float(logits[likeliest] - logits[second])
        tokens = [likeliest]
    raise AssertionError(f"the model says neither {left!r} nor {right!r}")
