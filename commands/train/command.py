"""One training at the shell: the configuration from file and options, then train and tell."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from commands._shared.fields import read_fields
from commands._shared.interrupts import Interrupts
from commands.train.showing import show_result, shown_events
from core.errors import UsageProblem
from core.jobs.lease import hold_lease
from core.paths import expanded
from core.train.config import make_config, require_paths
from core.train.events import Stage
from core.train.folder import require_free
from core.train.run import check_training, prepare_training, run_training

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.settings import Settings
    from core.train.config import TrainConfig
    from core.train.events import TrainEvent, TrainResult

_STOPPING = "Ending after the running step, and saving; Ctrl-C again ends at once."
_NO_NAME = re.compile(r"[^\w.-]+")


def run_train(
    model: str | None,
    options: Mapping[str, Any],
    *,
    config_file: Path | None,
    dry_run: bool,
    resume: bool,
    settings: Settings,
    session: Session,
    console: Console,
) -> None:
    """Train, or tell what a training would be.

    Args:
        model: as the user calls it; None: as the file does.
        options: fields of the configuration by their names; None: not given.
        config_file: a file with more of them, or None.
        dry_run: only tell.
        resume: go on from the last checkpoint.
        settings: the merged settings.
        session: the environment and the folders.
        console: the output.

    Raises:
        AlreadyRunning: another training has the accelerator.
        MlxbunError: as `core.train.run.run_training`.
        KeyboardInterrupt: it was stopped by Ctrl-C; what it came to is saved and shown.
    """
    config = _with_folder(_config(model, options, config_file), session, resume=resume)
    places: dict[str, Any] = {
        "settings": settings,
        "paths": session.paths,
        "environ": session.environ,
    }
    if dry_run:
        _tell(config, places, console, resume=resume)
        return
    check_training(config, settings=settings, paths=session.paths, resume=resume)
    with hold_lease(session.paths.lease_file, what="mlxbun train", on_wait=None):
        result = _train(config, places, console, resume=resume)
    show_result(result, config, console)
    if result.ended == "stopped":
        raise KeyboardInterrupt


def _tell(
    config: TrainConfig, places: Mapping[str, Any], console: Console, *, resume: bool
) -> None:
    """Show what a training would be."""
    require_paths(config)
    require_free(expanded(str(config.adapter_path)), resume=resume)
    with shown_events(console) as on_event:
        prepared = prepare_training(
            config, **places, on_event=on_event, on_progress=console.quarters(), resume=resume
        )
    # It imports MLX, which is not to be there before its BLAS is.
    from commands.train.dry import show_dry_run

    show_dry_run(prepared, console)


def _train(
    config: TrainConfig, places: Mapping[str, Any], console: Console, *, resume: bool
) -> TrainResult:
    with Interrupts(_STOPPING, console.note) as interrupts, shown_events(console) as show:

        def hear(event: TrainEvent, /) -> None:
            if isinstance(event, Stage) and event.stage == "training":
                interrupts.begin()
            show(event)

        return run_training(
            config,
            **places,
            on_event=hear,
            on_progress=console.quarters(),
            should_stop=interrupts.pressed,
            resume=resume,
        )


def _with_folder(config: TrainConfig, session: Session, *, resume: bool) -> TrainConfig:
    """Return a configuration that says where the adapter goes.

    Raises:
        UsageProblem: it names no data, or no folder to go on in.
    """
    if config.data_dir is None:
        raise UsageProblem(
            "There is no data to train on.", hint="Name a folder or a file: --data DIR"
        )
    if config.adapter_path is not None:
        return config
    if resume:
        raise UsageProblem("--resume needs the folder to go on in: --adapter-path DIR.")
    folder = session.paths.cache / "adapters" / _new_name(config, datetime.now())
    return make_config({"adapter_path": str(folder)}, base=config)


def _config(model: str | None, options: Mapping[str, Any], config_file: Path | None) -> TrainConfig:
    given = dict(options) | ({"model_dir": model} if model else {})
    return read_fields(make_config, given, config_file)


def _new_name(config: TrainConfig, now: datetime) -> str:
    """Return a name for an adapter's folder that tells its model, method and time."""
    name = (config.model_dir or "model").rstrip("/").rpartition("/")[2]
    plain = _NO_NAME.sub("-", name).strip("-.") or "model"
    return f"{plain}-{config.method}-{now:%Y%m%d-%H%M%S}"
