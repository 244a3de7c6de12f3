"""What grammars cost: eight rows under eight different forms, and the same eight rows without.

Run with `python -m benchmarks.grammar --model FOLDER`. Same engine, same prompts, in turns; the
seconds of a decode step, by its median over a run. Rows do not end: eight always run together.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.compare import Goal, Row, table, take_turns
from core.machine.compute import prepare_compute
from core.paths import Paths
from core.settings import Settings

_ROWS = 8
_STEPS = 40
_ITEMS: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "string", "enum": ["red", "green", "blue", "a long name of a colour"]},
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    {"type": "array", "items": {"type": "number"}, "minItems": 2},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
    {"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "boolean"}]},
    {
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date-time"}, "x": {"type": "number"}},
        "required": ["at", "x"],
    },
)


class Rows:
    """Eight rows of one engine."""

    def __init__(self, engine: Any) -> None:
        from core.engine.grammar import CompiledForm, Grammars
        from core.engine.request import GrammarSpec

        loaded = engine._loaded
        self._engine, self._tokenizer = engine, loaded.tokenizer
        grammars = Grammars(loaded.tokenizer, engine.info.vocabulary_size, loaded.tokenizer.eos_ids)
        self._forms: list[CompiledForm] = []
        for items in _ITEMS:
            # Longer than any run: a row that is complete would leave.
            schema = {"type": "array", "items": items, "minItems": 1000}
            form = grammars.prepare(GrammarSpec(kind="json_schema", source=schema))
            assert isinstance(form, CompiledForm), form
            self._forms.append(form)

    def with_forms(self, salt: str) -> float:
        """Return the seconds of a decode step under eight forms."""
        return self._seconds(salt, [form.start() for form in self._forms])

    def without(self, salt: str) -> float:
        """Return the seconds of a decode step."""
        return self._seconds(salt, [None] * _ROWS)

    def _seconds(self, salt: str, constraints: list[Any]) -> float:
        return float(self._engine.run_exclusive(lambda: self._run(salt, constraints)).result())

    def _run(self, salt: str, constraints: list[Any]) -> float:
        from core.engine.batch import BatchRunner
        from core.engine.request import SamplingParams

        runner = BatchRunner(
            self._engine._worker._runner._model, eos_ids=(), cap=_ROWS, most_prefill_tokens=512
        )
        sampling = self._engine._settle(SamplingParams(temperature=0.7, seed=1))
        for number, constraint in enumerate(constraints):
            text = f"{salt} {number}: write a list of things and describe each of them."
            tokens = self._tokenizer.encode(text, special=False)
            runner.insert(
                [tokens], max_tokens=_STEPS + 20, sampling=sampling, constraint=constraint
            )
        while runner.decoding < _ROWS:
            runner.step(512)
        times = []
        for _ in range(_STEPS):
            began = time.perf_counter()
            runner.step(512)
            times.append(time.perf_counter() - began)
        assert runner.decoding == _ROWS
        assert all(each is None or each.lost is None for each in constraints)
        return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of a model")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    cache = Paths.from_environ(os.environ).cache
    plan = prepare_compute(blas="auto", dequantize="auto", cache=cache, environ=os.environ)
    from core.engine.start import start_engine
    from core.registry.resolve import ModelRef

    ref = ModelRef(model_id="bench", folder=options.model)
    with start_engine(ref, plan=plan, settings=Settings(), cache=cache, on_note=print) as engine:
        rows = Rows(engine)
        row = Row(
            name="decode step of 8 rows (s)", goal=Goal(bound=1.02, at_most=True), inverse=False
        )
        take_turns([(row, rows.with_forms, rows.without)], options.rounds)
        print(table("grammars", ("eight forms", "none"), [row]))


if __name__ == "__main__":
    main()
