"""Every field of a training's configuration does something: a whole training shows what."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx_lm.models import llama

from core.errors import MlxbunError
from core.train import backward, objective, plot
from core.train.config import TABLE
from core.train.events import Metric, Note, Saved, TrainEvent
from core.train.head import token_logps
from tests.core.train.runs import config_of, run, sums, write_rows
from tests.tiny import make_model

_PAIRS = [
    {"prompt": f"{n}?", "chosen": f"={n + 1}", "rejected": f"={n + 2}" + "." * n} for n in range(4)
]
_NEAR = 1e-5
# What stays the same but for how it is computed.
_HOW = {
    "grad_checkpoint", "mlp_split", "segment_size", "chunk_size", "orpo_chunk_size",
    "orpo_fused_ce", "orpo_flash_ce", "orpo_prefix_shared",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a training came to, as others see it."""

    weights: dict[str, Any]
    """The adapter's matrices by name."""
    lines: list[Any]
    """The kind, step and loss of each line of the metrics."""
    files: frozenset[str]
    """In the adapter's folder."""
    saved: int
    """Checkpoints that were written."""
    ended: str
    """As the result says, or the error."""
    measured_on: str
    """As the result says."""
    computed: Counter[tuple[str, tuple[int, ...]]]
    """Shapes that layers, MLPs and the head were computed of, and kinds of cross-entropy."""


class Place:
    """A model, data sets and room for trainings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_model(folder / "model")
        make_model(folder / "another", seed=1)
        self.rows("rows", sums(5))
        self.rows("others", sums(5, first=3))
        self.rows("broken", [*sums(5), {"prompt": 1}])
        self.rows("valid", sums(5), sums(3, first=7))
        self.rows("pairs", _PAIRS)
        self.count = 0

    def rows(self, name: str, train: list[Any], valid: list[Any] | None = None) -> None:
        write_rows(self.folder / name, train)
        if valid:
            write_rows(self.folder / name, valid, "valid.jsonl")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def train(self, fields: dict[str, Any], computed: Counter[Any]) -> Seen:
        self.count += 1
        out = self.folder / f"out{self.count}"
        fields = {
            "data_dir": self.path("pairs" if fields.get("method", "sft") != "sft" else "rows"),
            "adapter_path": str(out),
            "iters": 4,
        } | fields
        config = config_of(self.folder, **fields)
        events: list[TrainEvent] = []
        computed.clear()
        try:
            result = run(config, self.folder / "home", events=events)
        except MlxbunError as problem:
            ended, measured_on = problem.message, ""
        else:
            ended, measured_on = result.ended, result.measured_on
        assert config.adapter_path is not None
        return seen(Path(config.adapter_path), events, ended, measured_on, computed)


def seen(
    out: Path, events: list[TrainEvent], ended: str, measured_on: str, computed: Counter[Any]
) -> Seen:
    metrics = [event for event in events if isinstance(event, Metric)]
    weights: Any = {}
    if (out / "adapters.safetensors").exists():
        weights = mx.load(str(out / "adapters.safetensors"))
    return Seen(
        weights={name: np.array(array) for name, array in weights.items()},
        lines=[(m.kind, m.step, round(m.loss, 6)) for m in metrics],
        files=frozenset(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file()),
        saved=sum(isinstance(event, Saved) for event in events),
        ended=ended,
        measured_on=measured_on,
        computed=Counter(computed),
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """Count what is computed, by name and shape."""
    found: Counter[Any] = Counter()

    def count(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def counting(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
            found[owner.__name__, tuple(x.shape)] += 1
            return call(self, x, *args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(llama.TransformerBlock, "__call__")
    count(llama.MLP, "__call__")
    count(nn.Embedding, "as_linear")

    def telling(*args: Any, kind: str, **kwargs: Any) -> Any:
        found[kind, ()] += 1
        return token_logps(*args, kind=kind, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(objective, "token_logps", telling)
    monkeypatch.setattr(plot, "find_spec", lambda _name: None)  # a picture takes as long again
    monkeypatch.setattr(backward, "_PIECE", 8)
    return found


_VALID: dict[str, Any] = {"data_dir": "valid", "steps_per_eval": 1}
_DPO, _ORPO = {"method": "dpo"}, {"method": "orpo"}
# Each field: what else is set, the value that it is changed to, and in which part that is seen.
_EFFECTS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "model_dir": ({}, "another", "weights"),
    "data_dir": ({}, "others", "weights"),
    "method": (_DPO, "orpo", "weights"),
    "rank": ({}, 5, "weights"),
    "scale": ({}, 9.0, "weights"),
    "rank_scaling": ({}, "by_bits", "weights"),
    "target_modules": ({}, ["q_proj"], "weights"),
    "num_layers": ({}, 1, "weights"),
    "iters": ({}, 3, "lines"),
    "learning_rate": ({}, 0.02, "weights"),
    "max_seq_length": ({}, 23, "weights"),
    "batch_size": ({}, 1, "weights"),
    "grad_accumulation_steps": ({}, 2, "weights"),
    "seed": ({}, 1, "weights"),
    "steps_per_report": ({}, 2, "lines"),
    "steps_per_eval": (_VALID, 2, "lines"),
    "weight_decay": ({}, 0.5, "weights"),
    "lora_dropout": ({}, 0.5, "weights"),
    "rs_lora": ({}, True, "weights"),
    "lora_plus_ratio": ({}, 4.0, "weights"),
    "grad_checkpoint": ({}, True, "computed"),
    "mlp_split": ({}, True, "computed"),
    "segment_size": ({}, 1, "computed"),
    "save_checkpoints": ({}, False, "files"),
    "steps_per_save": ({}, 3, "saved"),
    "grad_clip_norm": ({}, 0.01, "weights"),
    "val_max_examples": (_VALID, 1, "lines"),
    "valid_split": ({}, 0.4, "measured_on"),
    "early_stopping": (_VALID | {"learning_rate": 0}, 1, "ended"),
    "loss_limit": ({}, 0.1, "ended"),
    "strict": ({"data_dir": "broken"}, True, "ended"),
    "chunk_size": ({}, 3, "computed"),
    "sft_scope": ({}, "full", "weights"),
    "sft_warmup_iters": ({}, 2, "weights"),
    "sft_lr_schedule": ({}, "cosine", "weights"),
    "dpo_beta": (_DPO, 0.5, "weights"),
    "dpo_warmup_iters": (_DPO, 2, "weights"),
    "dpo_lr_schedule": (_DPO, "cosine", "weights"),
    "orpo_lambda": (_ORPO, 1.0, "weights"),
    "orpo_warmup_iters": (_ORPO, 2, "weights"),
    "orpo_lr_schedule": (_ORPO, "cosine", "weights"),
    "orpo_chunk_size": (_ORPO, 3, "computed"),
    "orpo_fused_ce": (_ORPO | {"sft_scope": "full"}, False, "computed"),
    "orpo_flash_ce": (_ORPO, False, "computed"),
    "orpo_prefix_shared": (_ORPO, False, "computed"),
}
_ELSEWHERE = {"adapter_path", "warm_start_adapter"}


def test_every_field_is_here() -> None:
    assert set(_EFFECTS) | _ELSEWHERE == set(TABLE.names)


@pytest.fixture(scope="module")
def before() -> dict[str, Seen]:
    """Trainings without the change, by what else is set."""
    return {}


@pytest.mark.parametrize("name", _EFFECTS)
def test_a_change_shows(
    place: Place, computed: Counter[Any], before: dict[str, Seen], name: str
) -> None:
    base, value, part = _EFFECTS[name]
    fields = _with_paths(place, base)
    key = json.dumps(fields, sort_keys=True)
    if key not in before:
        before[key] = place.train(fields, computed)
    changed = place.train(fields | _with_paths(place, {name: value}), computed)
    assert not _same(getattr(before[key], part), getattr(changed, part))
    if name in _HOW:
        assert changed.ended == before[key].ended == "done"
        assert _same(before[key].weights, changed.weights, near=_NEAR)


def _with_paths(place: Place, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: place.path(value) if name in ("data_dir", "model_dir") else value
        for name, value in fields.items()
    }


def _same(left: Any, right: Any, *, near: float = 0.0) -> bool:
    if not isinstance(left, dict) or isinstance(left, Counter):
        return bool(left == right)
    if {n: v.shape for n, v in left.items()} != {n: v.shape for n, v in right.items()}:
        return False
    return all(float(np.abs(left[name] - right[name]).max()) <= near for name in left)


def test_the_adapter_s_folder_and_what_it_begins_with(place: Place, computed: Counter[Any]) -> None:
    first = place.train({"adapter_path": place.path("mine")}, computed)
    assert "adapters.safetensors" in first.files
    assert (place.folder / "mine" / "adapters.safetensors").exists()
    second = place.train({"warm_start_adapter": place.path("mine")}, computed)
    losses = [next(line[2] for line in each.lines if line[1] == 0) for each in (first, second)]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"steps_per_eval": 2}, "steps_per_eval does nothing: there are no rows for validation."),
        ({"val_max_examples": 2}, "val_max_examples does nothing"),
        ({"num_layers": 5}, "num_layers is 5: all 2 layers of this model are trained."),
        ({"segment_size": 2}, "this model has 2 layers"),
        (_ORPO | {"segment_size": 1}, "Prompts are computed for each answer"),
    ],
)
def test_what_does_nothing_is_told(place: Place, fields: dict[str, Any], told: str) -> None:
    events: list[TrainEvent] = []
    pairs = {"data_dir": place.path("pairs" if "method" in fields else "rows")}
    place.count += 1
    out = {"adapter_path": place.path(f"out{place.count}"), "iters": 1}
    run(config_of(place.folder, **pairs, **out, **fields), place.folder / "home", events=events)
    assert any(told in event.line for event in events if isinstance(event, Note))


def test_all_layers_have_two_names(place: Place, computed: Counter[Any]) -> None:
    runs = [place.train({"num_layers": count, "iters": 1}, computed) for count in (0, -1)]
    assert _same(runs[0].weights, runs[1].weights)
    (config,) = {
        json.loads((place.folder / f"out{place.count - n}" / "adapter_config.json").read_text())[
            "num_layers"
        ]
        for n in (0, 1)
    }
    assert config == 2
