"""Wire protocols: bytes to requests and events to bytes. Know no web framework and no arrays."""
