"""Trainings to try, with what they need."""
