"""Trains an adapter on data/ and counts answers of the wanted form on held-out.jsonl.

    python -m examples.answer_format.run [MODEL] [OUT]

Measures the model, trains it with `mlxbun train`, and measures it with the adapter. Takes some
minutes on two CPU cores.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from examples.asking import answers, read_rows, tell, train

HERE = Path(__file__).parent
FORM = re.compile(r"= .+ \[(place|word|number)\]")


def measure(model: str, adapter: str | None) -> str:
    """Return the shares of answers of the form, and of exact ones, with an answer to look at."""
    rows = read_rows(HERE / "held-out.jsonl")
    found = answers(model, adapter, [row["prompt"] for row in rows])
    formed = sum(FORM.fullmatch(answer) is not None for answer in found) / len(rows)
    exact = sum(a == row["completion"] for a, row in zip(found, rows, strict=True)) / len(rows)
    return f"{formed:.0%} of the form, {exact:.0%} exact; {rows[0]['prompt']} -> {found[0]!r}"


def main() -> None:
    """Measure, train, measure."""
    model = sys.argv[1] if len(sys.argv) > 1 else "starter"
    out = sys.argv[2] if len(sys.argv) > 2 else "answer-format-lora"
    tell(f"before: {measure(model, None)}")
    train(model, HERE / "train.toml", out)
    tell(f"after: {measure(model, out)}")


if __name__ == "__main__":
    main()
