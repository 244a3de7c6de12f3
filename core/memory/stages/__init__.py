"""The stages of a synthesis, one module each, with typed input and output."""
