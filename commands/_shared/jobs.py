"""What starts a job's own process."""

from __future__ import annotations

import sys

FINETUNE = "core.train.runner:run"
"""The function that does a fine-tuning."""


QUANTIZE = "core.quantize.runner:run"
"""The function that does a quantization."""


def job_command(work: str) -> tuple[str, ...]:
    """Return the command that does a job's work, to which the job's id is added.

    Args:
        work: `module:function`; it takes a `JobRun` and returns an `Outcome` (`core.jobs.run`).
    """
    # -P: a folder in which mlxbun was started may hold a `core` of its own.
    return (sys.executable, "-P", "-m", "mlxbun_cli.job", work)
