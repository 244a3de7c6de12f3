"""Secrets in text, replaced before anything is stored, cached, logged or committed."""
