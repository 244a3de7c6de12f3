"""`mlxbun adapters`: show the adapters that were trained here, and what is in one."""

from commands.adapters.command import adapters_app

__all__ = ["adapters_app"]
