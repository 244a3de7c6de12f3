"""DPO's reference: the policy that a training starts from, to its end and after a resume."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy

from core.errors import UsageProblem
from core.paths import Paths
from core.settings import Settings
from core.train.config import TrainConfig
from core.train.estimate import memory_needed
from core.train.events import Metric, Note, TrainEvent
from core.train.run import prepare_training
from tests.core.train.runs import config_of, run, sums, write_rows
from tests.tiny import make_model


def adapter(folder: Path) -> dict[str, Any]:
    return dict(safetensors.numpy.load_file(folder / "adapters.safetensors"))


class Stop:
    """Asks a training to end after a step."""

    def __init__(self, step: int) -> None:
        self._step, self._now = step, 0

    def hear(self, step: int) -> None:
        self._now = step

    def wanted(self) -> bool:
        return self._now >= self._step


@pytest.fixture
def preferences(tmp_path: Path) -> Path:
    """Return the place of a training on pairs, with an adapter `sft` of an earlier one."""
    make_model(tmp_path / "model")
    write_rows(tmp_path / "data", sums(6))
    run(config_of(tmp_path, adapter_path=str(tmp_path / "sft")), tmp_path / "home")
    pairs = [{**row, "chosen": row.pop("completion"), "rejected": "no"} for row in sums(6)]
    write_rows(tmp_path / "data", pairs)
    return tmp_path


def dpo_of(place: Path, **fields: Any) -> TrainConfig:
    warm = {"method": "dpo", "warm_start_adapter": str(place / "sft"), "learning_rate": 0.001}
    return config_of(place, **(warm | fields))


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"scale": 9.0},
        {"rs_lora": True},
        {"lora_dropout": 0.5},
        {"segment_size": 1},
    ],
)
def test_dpo_compares_with_the_policy_that_it_starts_from(
    preferences: Path, form: dict[str, Any]
) -> None:
    events: list[TrainEvent] = []
    result = run(dpo_of(preferences, **form), preferences / "home", events=events)
    assert result.before.loss == pytest.approx(math.log(2), abs=1e-5)
    assert result.before.reward_margin == pytest.approx(0, abs=1e-5)
    assert result.after.loss != result.before.loss
    first = next(e for e in events if isinstance(e, Metric) and e.kind == "train")
    if "lora_dropout" not in form:
        assert first.loss == pytest.approx(math.log(2), abs=1e-4)
    assert any(isinstance(e, Note) and "DPO's reference is the adapter" in e.line for e in events)
    told = json.loads((preferences / "out" / "mlxbun.json").read_text())
    assert told["recipe"]["reference"] == "the warm-start adapter"


def test_dpo_without_a_start_compares_with_the_base_model(preferences: Path) -> None:
    config = dpo_of(preferences, warm_start_adapter=None)
    assert run(config, preferences / "home").before.loss == pytest.approx(math.log(2), abs=1e-5)
    told = json.loads((preferences / "out" / "mlxbun.json").read_text())
    assert told["recipe"]["reference"] == "the base model"


def test_dpo_goes_on_with_the_reference_that_it_began_with(preferences: Path) -> None:
    whole = dpo_of(preferences, adapter_path=str(preferences / "whole"))
    wanted = run(whole, preferences / "home")
    stop = Stop(3)
    part = run(
        dpo_of(preferences), preferences / "home", should_stop=stop.wanted, on_step=stop.hear
    )
    assert part.step == 3
    result = run(dpo_of(preferences), preferences / "home", resume=True)
    found, whole_adapter = adapter(preferences / "out"), adapter(preferences / "whole")
    assert all((found[name] == whole_adapter[name]).all() for name in whole_adapter)
    assert result.after == wanted.after


def test_dpo_does_not_go_on_against_another_reference(preferences: Path) -> None:
    stop = Stop(1)
    run(dpo_of(preferences), preferences / "home", should_stop=stop.wanted, on_step=stop.hear)
    bare = dpo_of(preferences, warm_start_adapter=None)
    with pytest.raises(UsageProblem, match="reference is now the base model"):
        run(bare, preferences / "home", resume=True)
    tensors = adapter(preferences / "sft")
    tensors |= {name: 2 * array for name, array in tensors.items() if name.endswith("lora_b")}
    safetensors.numpy.save_file(tensors, preferences / "sft" / "adapters.safetensors")
    with pytest.raises(UsageProblem, match="reference is now another adapter"):
        run(dpo_of(preferences), preferences / "home", resume=True)


def test_a_reference_that_is_an_adapter_counts_in_the_memory(preferences: Path) -> None:
    settings = Settings(blas="off")
    paths = Paths.from_environ({"HOME": str(preferences / "home")})
    needed = []
    for start in (str(preferences / "sft"), None):
        prepared = prepare_training(
            dpo_of(preferences, warm_start_adapter=start),
            settings=settings,
            paths=paths,
            environ={},
            on_event=lambda _event: None,
        )
        needed.append(memory_needed(prepared.config, prepared.trained, prepared.data))
    assert needed[0] is not None
    assert needed[1] is not None
    assert needed[0] - needed[1] == 4 * prepared.trained.trainable_parameters
