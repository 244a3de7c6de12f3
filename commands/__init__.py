"""One module per subcommand: parse, call core, show."""
