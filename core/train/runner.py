"""A training as a job, in a process of its own: the work that `mlxbun_cli.job` is given."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from core.jobs.run import Outcome
from core.jobs.stop import Cancelled
from core.settings import merge_settings, read_config
from core.train.config import make_config
from core.train.events import Metric, event_as_json
from core.train.run import run_training

if TYPE_CHECKING:
    from core.jobs.run import JobRun
    from core.train.events import TrainEvent


def run(job: JobRun) -> Outcome:
    """Train what the job was asked for.

    Raises:
        Cancelled: it was asked to end; the last checkpoint is kept.
        MlxbunError: the configuration, the model or the data cannot be used.
    """
    config = make_config(job.config)
    file = read_config(job.paths.config_file)

    def tell(event: TrainEvent, /) -> None:
        share = event.step / event.steps if isinstance(event, Metric) else None
        job.tell(event_as_json(event), progress=share)

    result = run_training(
        config,
        settings=merge_settings(config=file, environ=job.environ, flags={}).values,
        paths=job.paths,
        environ=job.environ,
        on_event=tell,
        should_stop=lambda: job.is_cancelled,
    )
    if result.ended == "stopped":
        raise Cancelled
    return Outcome(output_dir=result.adapter_path, summary=asdict(result))
