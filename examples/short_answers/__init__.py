"""Teaches to prefer short answers."""
