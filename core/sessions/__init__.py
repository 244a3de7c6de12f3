"""Conversations: what was said, kept as JSONL and replayed. Knows no model and no terminal."""
