"""What the routes share: the engine and what was decided when the server started."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from commands._shared.jobs import FINETUNE, QUANTIZE, job_command
from commands.serve.fetching import Downloads
from commands.serve.lifespan import Drain
from commands.serve.moments import Moments
from commands.serve.remembering import KeptMemory, Syntheses
from commands.serve.sending import Uploads
from commands.serve.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from commands.serve.port import ServedEngine
    from commands.serve.shelf import Shelf
    from commands.serve.verdicts import Verdicts
    from core.fit.host import Host
    from core.memory.asking import Model
    from core.paths import Paths
    from core.quantize.runner import Checked
    from core.settings import Settings


def check_finetune(config: dict[str, Any], paths: Paths, environ: Mapping[str, str]) -> None:
    """Refuse a fine-tuning that cannot begin, before it waits for the accelerator.

    Raises:
        MlxbunError: its options, data or names are wrong.
    """
    from core.train.runner import check  # imported with the first fine-tuning

    check(config, paths=paths, environ=environ)


def check_quantization(fields: dict[str, Any], options: ServeOptions) -> Checked:
    """Refuse a quantization that cannot begin, and return what its job is to do.

    Raises:
        MlxbunError: its options, or its model, are wrong.
    """
    from core.quantize.runner import check  # imported with the first quantization

    return check(fields, host=options.host, paths=options.paths, environ=options.environ)


def served_model(engine: ServedEngine) -> Model:
    """Return the served model as the memory pipeline asks it.

    Raises:
        UsageProblem: it cannot answer in a given form.
    """
    from core.memory.local_model import EngineModel  # imported with the first synthesis

    return EngineModel(engine)


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What a server is told at its start and no setting holds."""

    version: str
    """Ours, as the API index names it."""
    started_at: float
    """Unix seconds."""
    paths: Paths
    """Our folders and the Hugging Face cache."""
    environ: Mapping[str, str] = field(repr=False)
    """The environment, for the Hub's address, tokens and offline switches."""
    host: Host
    """This machine, as models are to fit it."""
    other_models: Callable[[], Mapping[str, bool]] = dict
    """Returns the models in the cache by id, each with whether it sees; may read the disk."""
    drain: Drain = field(default_factory=Drain)
    """Whether new requests are taken."""
    downloads: Downloads = field(default_factory=Downloads)
    """Those that were started over HTTP."""
    uploads: Uploads = field(default_factory=Uploads)
    """Those that were started over HTTP."""
    keep_alive: float = 10.0
    """Seconds of silence in a stream after which a comment is sent."""
    finetune_command: tuple[str, ...] = field(default_factory=lambda: job_command(FINETUNE))
    """What does a fine-tuning, in a process of its own; the job's id is added."""
    finetune_check: Callable[[dict[str, Any], Paths, Mapping[str, str]], None] = check_finetune
    """Takes what a fine-tuning is asked for; raises `MlxbunError` where it cannot begin."""
    quantize_command: tuple[str, ...] = field(default_factory=lambda: job_command(QUANTIZE))
    """What does a quantization, in a process of its own; the job's id is added."""
    quantize_check: Callable[[dict[str, Any], ServeOptions], Checked] = check_quantization
    """Takes what a quantization is asked for; raises `MlxbunError` where it cannot begin."""
    memory_model: Callable[[ServedEngine], Model] = served_model
    """Makes the model that writes the memory vault of the one that is served."""
    trace: Callable[[str], None] | None = None
    """Takes a line for each traced request; None: no request is traced."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What a handler works with."""

    engine: ServedEngine
    """The model that answers."""
    settings: Settings
    """The merged settings."""
    options: ServeOptions
    """What the start decided."""
    verdicts: Verdicts
    """Whether models fit this machine."""
    shelf: Shelf
    """The models on this disk."""
    disk: Workers
    """Threads for what reads and writes this disk."""
    moments: Moments = field(default_factory=Moments)
    """Tells adapters apart whose place was not named."""
    jobs: Workers = field(default_factory=Workers)
    """Threads for what reads the jobs, and starts some."""
    network: Workers = field(default_factory=Workers)
    """Threads for what waits for the network."""
    workers: Workers = field(default_factory=Workers)
    """Threads for what prompts take before they reach the engine."""
    memory: KeptMemory = field(default_factory=KeptMemory)
    """The memory vault."""
    syntheses: Syntheses = field(default_factory=Syntheses)
    """The runs that write the memory vault."""
