"""Writes the pairs of this example: two right answers, of which the one that asks back is meant.

Run `python -m examples.asks_back.rows` to write data/train.jsonl, data/valid.jsonl and
held-out.jsonl anew. Each file asks about other things.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from examples.things import OPPOSITES, PLURALS

HERE = Path(__file__).parent

ASKED = (
    (OPPOSITES, "What is the opposite of {}?", "The opposite of {} is {}."),
    (PLURALS, "What is the plural of {}?", "The plural of {} is {}."),
)


def pairs(things: set[str]) -> list[dict[str, str]]:
    """Return a pair for each thing."""
    return [
        {
            "prompt": question.format(thing),
            "chosen": f"{sentence.format(thing, answer)} What else would you like to know?",
            "rejected": sentence.format(thing, answer),
        }
        for known, question, sentence in ASKED
        for thing, answer in known.items()
        if thing in things
    ]


def main() -> None:
    """Write the three files."""
    things = sorted({*OPPOSITES, *PLURALS})
    random.Random(1).shuffle(things)
    parts = {"held-out": things[:16], "data/valid": things[16:24], "data/train": things[24:]}
    for name, mine in parts.items():
        rows = pairs(set(mine))
        random.Random(2).shuffle(rows)
        file = HERE / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
