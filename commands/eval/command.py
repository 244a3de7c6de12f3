"""One run of `mlxbun eval`: measure, keep, show, and fail where a limit or a claim is missed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from commands.eval.showing import evaluated_as_json, show_evaluated, show_verified, verified_as_json
from core.errors import MlxbunError
from core.evals.kept import describe_evaluation
from core.evals.run import Around, Evaluated, Options, Verified, run_eval, run_verify
from core.evals.table import require_limits
from core.evals.verify import require_true
from core.figures import FigureStore

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from commands.eval.words import Asked
    from core.settings import Settings


def run_command(asked: Asked, *, settings: Settings, session: Session, console: Console) -> None:
    """Evaluate a model and show what was found.

    Args:
        asked: what is wanted.
        settings: the merged settings.
        session: the environment and the folders.
        console: the output.

    Raises:
        ProofFailed: a limit is missed, or a claim does not hold; after the table was shown.
        MlxbunError: a model cannot be found, opened or computed, or the figures cannot be kept.
    """
    with console.progress() as on_progress:
        around = Around(
            settings=settings,
            paths=session.paths,
            environ=session.environ,
            on_note=console.note,
            on_progress=on_progress,
        )
        found = _verify(asked, around) if asked.verify else _evaluate(asked, around)
    problem = _keep(found, session, console)
    _show(found, console)
    require_limits(found.table.entries[-1], min_agreement=asked.min_agreement, max_kl=asked.max_kl)
    if isinstance(found, Verified):
        require_true(found.claims)
    if problem:
        raise problem


def _evaluate(asked: Asked, around: Around) -> Evaluated:
    assert asked.original is not None
    options = Options(layered=asked.layered, answers=asked.answers, tokens=asked.tokens)
    return run_eval(asked.original, asked.model, options, around)


def _verify(asked: Asked, around: Around) -> Verified:
    return run_verify(asked.model, original=asked.original, layered=asked.layered, around=around)


def _keep(found: Evaluated | Verified, session: Session, console: Console) -> MlxbunError | None:
    """Put the figures into the store; return what went wrong, so that they are shown first."""
    whole = verified_as_json(found) if isinstance(found, Verified) else evaluated_as_json(found)
    evaluation = describe_evaluation(
        found.table,
        found.table.entries[-1],
        original=found.original,
        model=found.model,
        machine=found.plan.machine,
        found=whole,
        now=datetime.now(UTC),
    )
    try:
        FigureStore(session.paths.figures_file, on_note=console.note).add_evaluation(evaluation)
    except MlxbunError as problem:
        return problem
    return None


def _show(found: Evaluated | Verified, console: Console) -> None:
    if isinstance(found, Verified):
        show_verified(found, console)
    else:
        show_evaluated(found, console)
