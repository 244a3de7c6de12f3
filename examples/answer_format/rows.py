"""Writes the rows of this example: questions with short answers in one form, `= Paris [place]`.

Run `python -m examples.answer_format.rows` to write data/train.jsonl, data/valid.jsonl and
held-out.jsonl anew. The rows of each file are about other things, so that only the form can carry
over.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from examples.things import OPPOSITES, PLACES

HERE = Path(__file__).parent

ASKED = {
    "place": ("What is the capital of {}?", "Name the capital city of {}.", "Capital of {}?"),
    "word": ("What is the opposite of {}?", "Give me the opposite of {}.", "Not {}, but what?"),
    "number": ("What is {}?", "How much is {}?", "Please add: {}"),
}


def all_rows(dice: random.Random) -> list[dict[str, str]]:
    """Return one row for each thing and each way to ask for it, in a random order."""
    sums = {f"{a} + {b}": str(a + b) for a in range(2, 12, 2) for b in range(1, 12, 2)}
    known = {"place": PLACES, "word": OPPOSITES, "number": sums}
    rows = [
        {"prompt": form.format(thing), "completion": f"= {answer} [{kind}]", "thing": thing}
        for kind, answers in known.items()
        for thing, answer in answers.items()
        for form in ASKED[kind]
    ]
    dice.shuffle(rows)
    return rows


def main() -> None:
    """Write the three files."""
    rows = all_rows(random.Random(1))
    things = sorted({row["thing"] for row in rows})
    random.Random(2).shuffle(things)
    held, valid = set(things[:14]), set(things[14:22])
    parts = {"held-out.jsonl": held, "data/valid.jsonl": valid}
    parts["data/train.jsonl"] = set(things) - held - valid
    for name, mine in parts.items():
        file = HERE / name
        file.parent.mkdir(exist_ok=True)
        chosen = [row for row in rows if row["thing"] in mine]
        lines = [json.dumps({key: row[key] for key in ("prompt", "completion")}) for row in chosen]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
