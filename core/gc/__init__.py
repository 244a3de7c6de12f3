"""Tidying the Hugging Face cache and our own folders up.

`survey` looks, `plan` decides and touches nothing, `execute` deletes what a plan holds and looks at
each thing again first.
"""
