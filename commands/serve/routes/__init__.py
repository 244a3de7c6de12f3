"""HTTP routes, one file per family: a handler reads and decodes, calls the engine, encodes."""
