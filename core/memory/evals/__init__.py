"""Measure `memory synthesize` on conversations that we wrote and labelled.

`labels` reads the corpus, `oracle` and `noisy` answer the questions of the stages from its labels,
`run` fills a vault with it, and `score` measures what is in the vault afterwards.
"""
