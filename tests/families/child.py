"""Runs families in this process and writes a line of JSON for each.

    python -m tests.families.child NAME...

A process of its own, because a family can take its process with it: phi3small writes beyond its
vocabulary. `started` is written before a family, so that whoever reads knows which one it was.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from core.engine import worker
from core.engine.engine import Engine
from core.engine.loader import load
from core.engine.request import SamplingParams
from tests.core.engine.conftest import PLAN
from tests.families.model import Lifeless, TinyModel, make_family
from tests.families.situations import CHUNK, SITUATIONS, Case


def main() -> None:
    """Run the families that the arguments name."""
    vars(worker)["_MOST_PREFILL_CPU"] = CHUNK
    for name in sys.argv[1:]:
        print(json.dumps({"started": name}), flush=True)
        print(json.dumps(_run(name)), flush=True)


def _run(name: str) -> dict[str, Any]:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        told: dict[str, Any] = {"family": name, "lanes": [], "ties": 0, "nats": 0.0, "faults": {}}
        try:
            tiny = make_family(name, Path(scratch))
        except Lifeless as reason:
            return told | {"faults": {"build": str(reason)}}
        except Exception as problem:
            return told | {"faults": {"build": _one_line(problem)}}
        try:
            _compare_all(tiny, told)
        except Exception as problem:
            told["faults"]["load"] = _one_line(problem)
    return told | {"effect": tiny.effect, "seconds": round(time.perf_counter() - began, 2)}


def _compare_all(tiny: TinyModel, told: dict[str, Any]) -> None:
    loader = partial(
        load,
        tiny.folder,
        model_id="tiny",
        plan=PLAN,
        defaults=SamplingParams(),
        memory_budget_gb=None,
    )
    with Engine(loader) as engine:
        for seed, (name, situation) in enumerate(SITUATIONS.items(), start=1):
            case = Case(engine, tiny.model, seed)
            began = time.perf_counter()
            try:
                situation(case)
            except Exception as problem:
                case.found.problems.append(_one_line(problem))
            if fault := case.found.fault:
                told["faults"][name] = fault
            told["nats"] = max(told["nats"], case.found.nats)
            told["ties"] += case.found.ties
            told["lanes"] = sorted({*told["lanes"], *case.found.lanes})
            told.setdefault("times", {})[name] = round(time.perf_counter() - began, 2)


def _one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split())[:200]
    return f"{type(problem).__name__}: {text}"


if __name__ == "__main__":
    main()
