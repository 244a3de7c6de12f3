"""The door of mlxbun: entry point, Typer app, exit codes."""
