"""A desk for jobs, as `tests.core.jobs` has it."""

from __future__ import annotations

from tests.core.jobs.conftest import desk

__all__ = ["desk"]
