"""`mlxbun download`: fetch a model from the Hugging Face Hub."""

from commands.download.command import download

__all__ = ["download"]
