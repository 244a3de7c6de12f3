"""Measures a running engine: prefill, decode and the time to the first token."""
