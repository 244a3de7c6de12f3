"""Grammar-constrained decoding with xgrammar."""
