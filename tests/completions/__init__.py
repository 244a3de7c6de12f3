"""Tab, in the shells that people use and beneath them."""
