"""Asks a model questions and returns its answers: for measuring before and after a training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def answers(
    model: str, adapter: str | None, questions: list[str], *, tokens: int = 24
) -> list[str]:
    """Return a model's likeliest answer to each question.

    Args:
        model: as `mlxbun serve` takes it.
        adapter: a folder; None: the model as it is.
        questions: asked by users, each in a chat of its own.
        tokens: of an answer at most.
    """
    from core.engine.events import TextDelta
    from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams
    from core.engine.start import open_engine
    from core.paths import Paths
    from core.progress import ignore_progress
    from core.settings import Settings

    engine = open_engine(
        model,
        settings=Settings(adapter=adapter),
        paths=Paths.from_environ(os.environ),
        environ=os.environ,
        on_progress=ignore_progress,
        on_note=lambda _line: None,
    )
    running = [
        engine.submit(
            GenerationRequest(
                prompt=ChatPrompt(messages=({"role": "user", "content": question},)),
                sampling=SamplingParams(temperature=0.0),
                max_tokens=tokens,
            )
        )
        for question in questions
    ]
    found = [
        "".join(event.text for event in generation if isinstance(event, TextDelta)).strip()
        for generation in running
    ]
    engine.close()
    return found


def train(model: str, config: Path, adapter: str, *words: str) -> None:
    """Run `mlxbun train` in a process of its own.

    Raises:
        subprocess.CalledProcessError: it failed, and has told why.
    """
    command = ["train", model, "--config", str(config), "--adapter-path", adapter, *words]
    subprocess.run([sys.executable, "-m", "mlxbun_cli", *command], check=True)


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
