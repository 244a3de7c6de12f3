"""Teaches to prefer answers that end with a question."""
