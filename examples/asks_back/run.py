"""Trains an adapter on pairs, and counts the answers to held-out.jsonl that ask back.

    python -m examples.asks_back.run [dpo|orpo] [MODEL] [OUT]

Measures the model, trains it with `mlxbun train`, and measures it with the adapter. Takes some
minutes on two CPU cores.
"""

from __future__ import annotations

import sys
from pathlib import Path

from examples.asking import answers, read_rows, tell, train

HERE = Path(__file__).parent
_TOKENS = 48


def measure(model: str, adapter: str | None) -> str:
    """Return the share of answers that end with a question, with one to look at."""
    rows = read_rows(HERE / "held-out.jsonl")
    found = answers(model, adapter, [row["prompt"] for row in rows], tokens=_TOKENS)
    asking = sum(answer.endswith("?") for answer in found) / len(rows)
    return f"{asking:.0%} ask back; {rows[0]['prompt']} -> {found[0]!r}"


def main() -> None:
    """Measure, train, measure."""
    method = sys.argv[1] if len(sys.argv) > 1 else "dpo"
    model = sys.argv[2] if len(sys.argv) > 2 else "starter"
    out = sys.argv[3] if len(sys.argv) > 3 else f"asks-back-{method}"
    tell(f"before: {measure(model, None)}")
    train(model, HERE / f"{method}.toml", out)
    tell(f"after: {measure(model, out)}")


if __name__ == "__main__":
    main()
