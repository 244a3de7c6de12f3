"""Tests of what is run in a clone."""
