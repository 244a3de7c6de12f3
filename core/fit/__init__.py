"""What a model takes in memory, and what fits. Arithmetic over counts; imports no arrays."""
