"""Stage `create`: how a new article begins: its type, its other names, and the facts of its lead.

A subject with a single fact becomes a short article (its only fact is its lead), without asking.

Question (`stage` is `create`), one per new article with at least two facts:

    data = {
        "article": "Ana (accounting)",
        "kind": "person",
        "facts": [FACT, ...],          # see `core.memory.stages.proposing`
    }

Answer:

    {"type": "accountant", "aliases": ["Anita"], "lead": ["FACT ID", ...]}

`type` is a short noun phrase whose words stand in the facts, or empty. An alias must stand in a
quote or sentence of the facts and must not be the name of another article. `lead` names one to
three of the facts, in order. What does not hold is refused and left out.
"""
