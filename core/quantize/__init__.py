"""Weights in fewer bits, and what they lose by it."""
