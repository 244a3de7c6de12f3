"""One plug-in per model family, found by its name; each has a `FAMILY`."""
