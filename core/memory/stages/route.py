"""Stage `route`: which article a fact belongs to. The model proposes among candidates.

Facts with the same subject in the same conversation go to the same article. The model is asked
only about subjects for which there are candidates and the code cannot tell by itself: a full name
or a distinctive name of the same kind is the same thing, a name that nothing resembles is new. A
first name alone is not enough to merge (`evidence`).

Question (`stage` is `route`), one per subject and conversation:

    data = {
        "subject": "Ana",              # as the user calls it
        "kind": "person",
        "source": "chatgpt:6f1c",
        "facts": [FACT, ...],          # see `core.memory.stages.proposing`
        "candidates": [
            {
                "article": "Ana",      # name of an article, in the vault or planned in this run
                "kind": "person",
                "type": "designer",    # may be empty
                "aliases": ["Anita"],
                "sentences": ["Ana lives in Porto.", ...],
                "evidence": ["same home city"],   # what speaks for a merge; may be empty
            },
        ],
    }

Answer:

    {"article": "Ana", "qualifier": ""}           # one of the candidates
    {"article": "", "qualifier": "accounting"}    # a new article; the qualifier may be empty

A merge without enough evidence is refused: the facts go to a new article, and a Talk entry
proposes the merge. A qualifier must stand in the facts; it is used only if the plain name is taken.
"""
