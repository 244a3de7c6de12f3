"""`mlxbun jobs`: show, watch and cancel the long work that runs in processes of its own."""

from commands.jobs.command import jobs_app

__all__ = ["jobs_app"]
