"""Speed, measured as a ratio against a peer in the same run. Nothing here is a test."""
