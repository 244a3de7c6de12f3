"""A training as a job, in a process of its own: the work that `mlxbun_cli.job` is given."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.jobs.run import Outcome
from core.jobs.stop import Cancelled
from core.settings import settings_of
from core.train.config import make_config
from core.train.events import Metric, event_as_json
from core.train.run import check_training, run_training

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.jobs.run import JobRun
    from core.paths import Paths
    from core.train.events import TrainEvent


def run(job: JobRun) -> Outcome:
    """Train what the job was asked for.

    Raises:
        Cancelled: it was asked to end; the last checkpoint is kept.
        MlxbunError: the configuration, the model or the data cannot be used.
    """
    config = make_config(job.config)

    def tell(event: TrainEvent, /) -> None:
        share = event.step / event.steps if isinstance(event, Metric) else None
        job.tell(event_as_json(event), progress=share)

    result = run_training(
        config,
        settings=settings_of(job.paths, job.environ),
        paths=job.paths,
        environ=job.environ,
        on_event=tell,
        should_stop=lambda: job.is_cancelled,
    )
    if result.ended == "stopped":
        raise Cancelled
    return Outcome(output_dir=result.adapter_path, summary=asdict(result))


def check(fields: Mapping[str, Any], *, paths: Paths, environ: Mapping[str, str]) -> None:
    """Refuse a training that cannot begin before it waits for the accelerator.

    Args:
        fields: what the job is asked for, as JSON has it.
        paths: our folders and the Hugging Face cache.
        environ: the variables of the job's process.

    Raises:
        MlxbunError: as `check_training`, or the configuration is wrong.
    """
    check_training(make_config(fields), settings=settings_of(paths, environ), paths=paths)
