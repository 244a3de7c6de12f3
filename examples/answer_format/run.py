"""Trains an adapter on data/ and counts answers of the wanted form on held-out.jsonl.

    python run.py [MODEL] [OUT]

Measures the model, trains it with `mlxbun train`, and measures it with the adapter. Takes some
minutes on two CPU cores.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FORM = re.compile(r"= .+ \[(place|word|number)\]")


def share(model: str, adapter: str | None) -> tuple[float, float, str]:
    """Return the shares of answers of the form, and of exact ones, with an answer to look at."""
    from core.engine.events import Finished, TextDelta
    from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams
    from core.engine.start import open_engine
    from core.paths import Paths
    from core.progress import ignore_progress
    from core.settings import Settings

    rows = [json.loads(line) for line in (HERE / "held-out.jsonl").read_text().splitlines()]
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
                prompt=ChatPrompt(messages=({"role": "user", "content": row["prompt"]},)),
                sampling=SamplingParams(temperature=0.0),
                max_tokens=24,
            )
        )
        for row in rows
    ]
    answers = []
    for generation in running:
        events = [event for event in generation if isinstance(event, TextDelta | Finished)]
        answers.append("".join(e.text for e in events if isinstance(e, TextDelta)).strip())
    engine.close()
    formed = sum(FORM.fullmatch(answer) is not None for answer in answers)
    exact = sum(a == row["completion"] for a, row in zip(answers, rows, strict=True))
    return formed / len(rows), exact / len(rows), f"{rows[0]['prompt']} -> {answers[0]!r}"


def tell(when: str, found: tuple[float, float, str]) -> None:
    """Print what was measured."""
    formed, exact, example = found
    sys.stdout.write(f"{when}: {formed:.0%} of the form, {exact:.0%} exact; {example}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure, train, measure."""
    model = sys.argv[1] if len(sys.argv) > 1 else "starter"
    out = sys.argv[2] if len(sys.argv) > 2 else "answer-format-lora"
    tell("before", share(model, None))
    words = ["train", model, "--config", str(HERE / "train.toml"), "--adapter-path", out]
    subprocess.run([sys.executable, "-m", "mlxbun_cli", *words], check=True)
    tell("after", share(model, out))


if __name__ == "__main__":
    main()
