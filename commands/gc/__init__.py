"""`mlxbun gc`: what nobody needs in the Hugging Face cache, shown, and deleted when asked for."""

from commands.gc.command import gc

__all__ = ["gc"]
