"""`mlxbun memory`: a personal wiki, in Markdown and git, that models read and write."""

from commands.memory.app import memory_app

__all__ = ["memory_app"]
