"""Stage `wikify`: the form of an article: infobox, order of its sections, See also.

The infobox gets its fields from exclusive facts, without asking. Sections that were there keep
their order; only new ones are placed.

Question (`stage` is `wikify`), one per article with a new section beside others, or with related
articles:

    data = {
        "article": "Ana",
        "kind": "person",
        "sections": [{"anchor": "work", "heading": "Work", "new": true}, ...],   # in order
        "related": [{"article": "Heron", "why": "links here"}, ...],
    }

Answer:

    {"order": ["work", "health"], "see_also": ["Heron"]}

`order` is a permutation of the sections' anchors that keeps those that are not new in order, or
empty: as it is. `see_also` names some of the related articles. What does not hold is refused. No
sentence is changed.
"""
