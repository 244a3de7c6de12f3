"""Teaches to answer in one form."""
