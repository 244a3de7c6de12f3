"""The library of models: the Hugging Face cache, names, GGUF import and the starter model."""
