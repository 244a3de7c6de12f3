"""Rows of text as people keep them: files, and what a row holds. Imports no arrays."""
