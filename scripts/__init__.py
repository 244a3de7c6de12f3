"""What is run in a clone of the repository, and not shipped."""
