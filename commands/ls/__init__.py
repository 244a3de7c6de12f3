"""`mlxbun ls`: the models on this disk. Imports neither MLX, huggingface_hub nor Rich."""

from commands.ls.command import ls

__all__ = ["ls"]
