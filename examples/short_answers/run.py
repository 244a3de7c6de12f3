"""Trains an adapter on pairs, and counts short answers to the questions of held-out.jsonl.

    python -m examples.short_answers.run [dpo|orpo] [MODEL] [OUT]

Measures the model, trains it with `mlxbun train`, and measures it with the adapter. Takes some
minutes on two CPU cores.
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.asking import answers, read_rows, tell, train

HERE = Path(__file__).parent
_SHORT = 2  # words


def measure(model: str, adapter: str | None) -> str:
    """Return the share of short answers, and of those that are the chosen ones."""
    rows = read_rows(HERE / "held-out.jsonl")
    found = answers(model, adapter, [row["prompt"] for row in rows])
    words = [len(answer.split()) for answer in found]
    short = sum(0 < count <= _SHORT for count in words) / len(rows)
    exact = sum(a == row["chosen"] for a, row in zip(found, rows, strict=True)) / len(rows)
    told = f"{short:.0%} short, {exact:.0%} exactly as chosen, {sum(words) / len(rows):.1f} words"
    return f"{told}; {rows[0]['prompt']} -> {found[0]!r}"


def main() -> None:
    """Measure, train, measure."""
    method = sys.argv[1] if len(sys.argv) > 1 else "dpo"
    model = sys.argv[2] if len(sys.argv) > 2 else "starter"
    out = sys.argv[3] if len(sys.argv) > 3 else f"short-answers-{method}"
    tell(f"before: {measure(model, None)}")
    train(model, HERE / "train.toml", out, "--method", method)
    tell(f"after: {measure(model, out)}")


if __name__ == "__main__":
    main()
