"""`mlxbun upload`: a model, an adapter or a data set to the Hugging Face Hub."""

from commands.upload.command import upload

__all__ = ["upload"]
