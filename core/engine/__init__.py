"""The model in memory: one engine, one thread, typed requests in and typed events out.

`core.engine.request` and `core.engine.events` are the vocabulary; `core.engine.start` opens an
engine. Importing this package imports no arrays.
"""
