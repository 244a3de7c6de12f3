"""Stage `link`: wikilinks to articles that exist, around words that stand there.

Only sentences that this run adds are linked; at most one link per target and section; nothing in
code, quotes, headings or footnotes.

Question (`stage` is `link`), one per article with candidates:

    data = {
        "article": "Ana",
        "candidates": [                # in the order of the text
            {
                "target": "Heron",     # name of an article
                "anchor": "work",      # of the section; the lead: ""
                "words": "Heron",      # the words that stand there
                "sentence": "Ana works at Heron.",
            },
        ],
    }

Answer, a subset of the candidates:

    {"links": [{"target": "Heron", "anchor": "work", "words": "Heron"}]}

What is not among the candidates is refused.
"""
