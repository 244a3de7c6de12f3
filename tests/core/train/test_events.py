"""Events as JSON: what a job's log and metrics.jsonl hold."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from core.train.events import Metric, Note, Saved, Stage, event_as_json, metric_from_json


def test_a_loss_that_is_no_number_is_null() -> None:
    metric = Metric(kind="train", step=1, steps=2, loss=float("nan"), grad_norm=float("inf"))
    told = json.dumps(event_as_json(metric), allow_nan=False)
    assert json.loads(told) == {
        "type": "metric",
        "kind": "train",
        "step": 1,
        "steps": 2,
        "loss": None,
        "grad_norm": None,
    }


def test_types_are_those_of_a_job() -> None:
    stage = Stage(stage="data", progress=0.5, message="reading")
    events = (Note(line="x"), Saved(step=3, path="p"), stage)
    assert [event_as_json(event)["type"] for event in events] == ["log", "log", "stage"]
    assert event_as_json(events[1])["line"] == "saved the checkpoint of step 3"


@pytest.mark.parametrize(
    "values",
    [
        [],
        {},
        {"kind": "train", "step": "1", "steps": 2, "loss": 1},
        {"kind": "train", "step": 1, "steps": 0, "loss": 1},
        {"kind": "train", "step": 1, "steps": 2, "loss": "low"},
        {"kind": ["val"], "step": 1, "steps": 2, "loss": 1},
        {"kind": "val", "step": 1, "steps": 2, "loss": 1, "memory_bytes": True},
    ],
)
def test_what_is_no_metric(values: Any) -> None:
    assert metric_from_json(values) is None


def test_metrics_come_back_from_json() -> None:
    metric = Metric(kind="val", step=3, steps=9, loss=1.5, perplexity=4.5)
    assert metric_from_json(json.loads(json.dumps(event_as_json(metric)))) == metric
    endless = Metric(kind="train", step=3, steps=9, loss=math.inf)
    found = metric_from_json(json.loads(json.dumps(event_as_json(endless))))
    assert found is not None
    assert math.isnan(found.loss)
