"""What the commands share: the one output sink, options, and how an error is shown."""
