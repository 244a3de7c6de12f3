"""Runs families in this process and writes a line of JSON for each.

    python -m tests.families.child NAME...

A process of its own, because some families take their process with them: phi3small writes beyond
the end of a small vocabulary. `started` is written before each family, so that the parent knows
which one it was.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from core.engine import worker
from core.engine.engine import Engine
from core.engine.loader import load
from core.engine.request import SamplingParams
from core.engine.tokenizer_card import CardShelf
from tests.core.engine.conftest import PLAN
from tests.families.model import TinyModel, make_family, tokenizer_card
from tests.families.situations import CHUNK, NEAR, SITUATIONS, Case, own_difference

_PATIENCE = 120  # seconds that a family may take


@dataclass(kw_only=True)
class Verdict:
    """What was found about a family."""

    family: str
    """Its name."""
    faults: dict[str, str] = field(default_factory=dict)
    """What is wrong, by situation; empty: nothing."""
    mode: str = ""
    """How the engine runs its sequences; empty: not known."""
    reason: str | None = None
    """Why not in padded batches; None: it does."""
    nats: float = 0.0
    """The largest difference between the engine and mlx-lm's own loop."""
    own: float = 0.0
    """The largest difference between mlx-lm's own loop and itself, with other chunks."""
    ties: int = 0
    """Tokens that differ where the two likeliest are within the tolerance."""


def main() -> None:
    """Run the families that the arguments name."""
    vars(worker)["_MOST_PREFILL_CPU"] = CHUNK
    for name in sys.argv[1:]:
        faulthandler.dump_traceback_later(_PATIENCE, exit=True)
        print(json.dumps({"started": name}), flush=True)
        print(json.dumps(asdict(_run(name))), flush=True)


def _run(name: str) -> Verdict:
    verdict = Verdict(family=name)
    with tempfile.TemporaryDirectory() as scratch:
        stage = "build"
        try:
            tiny = make_family(name, Path(scratch))
            verdict.own = own_difference(tiny.model)
            stage = "load"
            with _open(tiny) as engine:
                stage = "run"
                verdict.mode = engine.info.batching.mode
                verdict.reason = engine.info.batching.reason
                _compare_all(engine, tiny, verdict)
        # Foreign models: whatever they raise is what is wrong with them.
        except Exception as problem:
            verdict.faults[stage] = _one_line(problem)
    return verdict


def _open(tiny: TinyModel) -> Engine:
    shelf = CardShelf(tiny.folder / "cards")
    shelf.keep(tiny.folder, tokenizer_card())
    return Engine(
        partial(
            load,
            tiny.folder,
            model_id="tiny",
            plan=PLAN,
            defaults=SamplingParams(),
            memory_budget_gb=None,
            shelf=shelf,
        )
    )


def _compare_all(engine: Engine, tiny: TinyModel, verdict: Verdict) -> None:
    tolerance = max(NEAR, verdict.own)
    for seed, (name, situation) in enumerate(SITUATIONS.items(), start=1):
        case = Case(engine, tiny.model, seed)
        try:
            situation(case)
        except Exception as problem:
            case.found.problems.append(_one_line(problem))
        lane = "serial" if verdict.mode == "serial" else "batched"
        if fault := case.found.fault(tolerance, lane):
            verdict.faults[name] = fault
        verdict.nats = max(verdict.nats, case.found.nats)
        verdict.ties += case.found.ties


def _one_line(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:200]


if __name__ == "__main__":
    main()
