"""Makes docs/cli.md from the app, and docs/pictures/ from real commands: `make docs`."""
