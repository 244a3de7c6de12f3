"""Stage `section-route`: which section of its article a fact belongs to.

A fact on a property that a section already speaks of goes to that section, without asking.

Question (`stage` is `section-route`), one per article with other facts:

    data = {
        "article": "Ana",
        "kind": "person",
        "sections": [                  # in order; the lead has the anchor ""
            {"anchor": "", "heading": "", "sentences": ["Ana is a designer.", ...]},
            {"anchor": "work", "heading": "Work", "sentences": [...]},
        ],
        "facts": [FACT, ...],          # see `core.memory.stages.proposing`
    }

Answer:

    {"places": [
        {"fact": "FACT ID", "anchor": "work", "heading": ""},   # into a section
        {"fact": "FACT ID", "anchor": "", "heading": ""},       # into the lead
        {"fact": "FACT ID", "anchor": "", "heading": "Health"}, # into a new section
    ]}

An anchor that the article does not have, a heading that is not a short plain noun phrase, or a fact
without a place is refused: the fact goes to the section that `default_heading` names.
"""
