"""Writes the pairs of this example: two right answers to a question, the short one being meant.

Run `python examples/short_answers/rows.py` to write data/train.jsonl and data/valid.jsonl anew. The
validation asks for other things than the training.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

HERE = Path(__file__).parent

PLACES = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo",
    "Peru": "Lima", "Cuba": "Havana", "Kenya": "Nairobi", "Norway": "Oslo", "Greece": "Athens",
    "Austria": "Vienna", "Poland": "Warsaw", "Portugal": "Lisbon", "Ireland": "Dublin",
    "Hungary": "Budapest", "Denmark": "Copenhagen", "Sweden": "Stockholm", "Chile": "Santiago",
}  # fmt: skip
OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "up": "down", "old": "young", "day": "night",
    "open": "closed", "hard": "soft", "early": "late", "high": "low", "rich": "poor", "wet": "dry",
    "full": "empty", "strong": "weak", "long": "short", "near": "far", "loud": "quiet",
}  # fmt: skip
_HELD = 5  # things of each kind that only the validation asks for


def pairs(known: dict[str, str], question: str, sentence: str) -> list[dict[str, str]]:
    """Return a pair for each thing."""
    return [
        {
            "prompt": question.format(thing),
            "chosen": f"{answer.capitalize()}.",
            "rejected": sentence.format(thing, answer),
        }
        for thing, answer in known.items()
    ]


def main() -> None:
    """Write both files."""
    every = (
        pairs(PLACES, "What is the capital of {}?", "The capital of {} is {}."),
        pairs(OPPOSITES, "What is the opposite of {}?", "The opposite of {} is {}."),
    )
    parts = {
        "train": [pair for kind in every for pair in kind[_HELD:]],
        "valid": [pair for kind in every for pair in kind[:_HELD]],
    }
    for name, rows in parts.items():
        random.Random(1).shuffle(rows)
        file = HERE / "data" / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
