"""What a model can do and what it lost, measured on held-out text."""
