"""Stage `patch`: weave facts into a section.

The deterministic way is to insert each fact's own sentence. The model may propose a better text of
the section; it is taken only if nothing that stood there is lost or changed and every new sentence
cites the facts that it states. Otherwise the sentences are inserted and the refusal is recorded.

Question (`stage` is `patch`), one per section with new facts (none for a section that has more than
plain paragraphs, or is too long):

    data = {
        "article": "Ana",
        "heading": "Work",             # empty: the lead
        "text": "Ana works at Heron.[^1] She began in May.[^2]",   # empty: a new section
        "facts": [FACT + {"label": "3"}, ...],     # see `core.memory.stages.proposing`
        "draft": "Ana works at Heron.[^1] She began in May.[^2] Ana leads the team.[^3]",
    }

`draft` is the section with the facts' own sentences inserted; replaced facts have their
" (until DATE)" in `text` already.

Answer:

    {"text": "Ana works at Heron.[^1] She began in May.[^2] There she leads the team.[^3]"}

Every sentence of `text` must stand in the answer as it is, with its footnotes and in its order.
Every label of `facts` must be cited, each new sentence must cite one to three of them and no other,
and its numbers, names and the value of each fact must be those of the facts it cites. No links,
HTML, images, headings, lists, code or footnote definitions.
"""
