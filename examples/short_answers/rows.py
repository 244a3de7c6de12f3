"""Writes the pairs of this example: two right answers to a question, the short one being meant.

Run `python -m examples.short_answers.rows` to write data/train.jsonl, data/valid.jsonl and
held-out.jsonl anew. Each file asks about other things.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from examples.things import OPPOSITES, PLACES

HERE = Path(__file__).parent

ASKED = (
    (PLACES, "What is the capital of {}?", "The capital of {} is {}."),
    (PLACES, "Name the capital city of {}.", "The capital city of {} is {}."),
    (OPPOSITES, "What is the opposite of {}?", "The opposite of {} is {}."),
    (OPPOSITES, "Give me the opposite of {}.", "The opposite of {} is {}."),
)


def pairs(things: set[str]) -> list[dict[str, str]]:
    """Return a pair for each thing and each way to ask for it."""
    return [
        {
            "prompt": question.format(thing),
            "chosen": f"{answer.capitalize()}.",
            "rejected": sentence.format(thing, answer),
        }
        for known, question, sentence in ASKED
        for thing, answer in known.items()
        if thing in things
    ]


def main() -> None:
    """Write the three files."""
    things = sorted({*PLACES, *OPPOSITES})
    random.Random(1).shuffle(things)
    parts = {"held-out": things[:14], "data/valid": things[14:20], "data/train": things[20:]}
    for name, mine in parts.items():
        rows = pairs(set(mine))
        random.Random(2).shuffle(rows)
        file = HERE / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
