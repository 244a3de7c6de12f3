"""A personal wiki: Markdown in a git repository, written by a pipeline and read by the assistant.

`names`, `article` and `citation` know the format, `git` and `writer` the repository, `vault` the
files, `search` the index, `sources` the conversations, `stages` and `pipeline` what is written.
Only `local_model` imports the engine.
"""
