"""The machine: memory, device, BLAS and compiler, found without importing MLX."""
