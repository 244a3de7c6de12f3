"""A quantization as a job, in a process of its own: the work that `mlxbun_cli.job` is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.jobs.run import Outcome
from core.quantize.begin import make_ready
from core.quantize.checks import look
from core.quantize.events import event_as_json
from core.quantize.inspect import local_model
from core.quantize.plain import result_as_json
from core.quantize.recipe import make_recipe
from core.quantize.resume import key_of
from core.quantize.run import run_quantize
from core.settings import settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.fit.host import Host
    from core.jobs.run import JobRun
    from core.paths import Paths
    from core.quantize.events import QuantizeEvent


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A quantization that can begin."""

    config: dict[str, Any]
    """What the job is asked for: the fields, with the width that `fit` chose."""
    output_dir: str
    """Where the result will lie."""


def run(job: JobRun) -> Outcome:
    """Quantize what the job was asked for.

    Raises:
        Cancelled: it was asked to end; what is written is kept for the same recipe.
        MlxbunError: the recipe or the model cannot be used, or a limit of the proof is not met.
    """

    def tell(event: QuantizeEvent, /) -> None:
        job.tell(event_as_json(event))

    result = run_quantize(
        make_recipe(job.config),
        settings=settings_of(job.paths, job.environ),
        paths=job.paths,
        environ=job.environ,
        on_event=tell,
        should_stop=lambda: job.is_cancelled,
    )
    return Outcome(output_dir=str(result.folder), summary=result_as_json(result))


def check(
    fields: Mapping[str, Any], *, host: Host, paths: Paths, environ: Mapping[str, str]
) -> Checked:
    """Refuse a quantization that cannot begin before there is a job, and choose its width.

    Args:
        fields: what the job is asked for, as JSON has it.
        host: this machine, for `fit`.
        paths: our folders and the Hugging Face cache.
        environ: the variables of the job's process.

    Raises:
        MlxbunError: as `make_ready`, or the recipe is wrong, or the starter is not here.
    """
    settings = settings_of(paths, environ)
    asked = make_recipe(fields)
    ready = make_ready(asked, find_host=lambda: host, settings=settings, paths=paths)
    outlook = ready.outlook
    if outlook is None:
        model = local_model(str(asked.model_id), paths=paths, settings=settings)
        outlook = look(ready.recipe, model, hub_cache=paths.hub_cache)
    commit = key_of(ready.recipe, outlook.model.folder).commit
    config = {name: value for name, value in fields.items() if name != "fit" and value is not None}
    if asked.fit is not None:
        config["bits"] = ready.recipe.bits
    return Checked(config=config, output_dir=str(outlook.target.snapshot(commit)))
