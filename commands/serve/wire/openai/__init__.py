"""The OpenAI protocol: chat completions, text completions and models."""
