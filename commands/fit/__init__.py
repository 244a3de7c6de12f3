"""`mlxbun fit`: whether a model fits a machine, and how fast it would be. Imports no MLX."""

from commands.fit.command import fit

__all__ = ["fit"]
