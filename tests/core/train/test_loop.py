"""Whole trainings: what they leave, and what is left of them when something ends them."""

from __future__ import annotations

import errno
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import safetensors.numpy

import core.paths
import core.train.adapter
import core.train.checkpoint
import core.train.loop
from core.errors import AlreadyRunning, MlxbunError, NotFound, UsageProblem
from core.provenance import read_provenance
from core.train.events import Metric, Note, Saved, TrainEvent
from core.train.folder import only_training
from core.train.plot import read_curves
from tests.core.train.runs import config_of, run, sums, write_rows
from tests.tiny import make_model

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_model(tmp_path / "model")
    write_rows(tmp_path / "data", sums(12))
    write_rows(tmp_path / "data", sums(4, 20), "valid.jsonl")
    return tmp_path


def adapter(folder: Path) -> dict[str, Any]:
    return dict(safetensors.numpy.load_file(folder / "adapters.safetensors"))


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all((left[n] == right[n]).all() for n in left)


def test_learns_and_leaves_everything(place: Path) -> None:
    events: list[TrainEvent] = []
    result = run(config_of(place, iters=12, steps_per_eval=4), place / "home", events=events)
    assert (result.ended, result.step, result.measured_on) == ("done", 12, "validation")
    assert result.after.loss < 0.8 * result.before.loss
    assert result.after.perplexity == pytest.approx(np.exp(result.after.loss), rel=1e-4)
    lines = [json.loads(x) for x in (place / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == list(range(1, 13))
    assert [line["step"] for line in lines if line["kind"] == "val"] == [0, 4, 8, 12]
    assert (place / "out" / "loss.svg").read_text().startswith("<svg")
    assert len(read_curves(place / "out" / "metrics.jsonl").train) == 12
    told = read_provenance(place / "out")
    assert told is not None
    assert (told.relation, told.recipe["rank"], told.recipe["steps"]) == ("adapter", 4, 12)
    assert {figure.name for figure in told.figures} == {"loss", "perplexity"}
    assert str(place) not in (place / "out" / "mlxbun.json").read_text()
    metrics = [event for event in events if isinstance(event, Metric)]
    assert metrics[-2].seconds_left == 0


def test_plain_mlx_lm_computes_the_same(place: Path) -> None:
    from mlx_lm import load

    from core.engine.loader import mount_adapter

    run(config_of(place, rank_scaling="by_bits", rs_lora=True), place / "home")
    tokens = mx.arange(9)[None]
    theirs, _ = load(str(place / "model"), adapter_path=str(place / "out"))
    ours, _ = load(str(place / "model"))
    plain = ours(tokens)
    mount_adapter(ours, place / "out")
    assert mx.array_equal(theirs(tokens), ours(tokens))
    assert float(mx.abs(theirs(tokens) - plain).max()) > 0.01


@pytest.mark.parametrize("bits", [None, 4])
def test_layers_of_several_ranks_keep_their_product(tmp_path: Path, bits: int | None) -> None:
    from mlx_lm.utils import load_model

    from core.train.adapter import to_common_form
    from core.train.lora import adapters_of, find_targets, mount, set_trainable, trainable

    make_model(tmp_path / "model", bits=bits)
    model, _ = load_model(tmp_path / "model")
    targets = find_targets(model, ("q_proj", "up_proj"), 0)
    ranks = {target.path: 2 + index for index, target in enumerate(targets)}
    mount(model, ranks, scale=3.0, rs_lora=True, dropout=0.0, seed=0)
    set_trainable(model, {n: mx.random.normal(v.shape) for n, v in trainable(model).items()})
    found = to_common_form(model, trainable(model), 5, 7.0)
    for path, each in adapters_of(model).items():
        wanted = each.scale * (np.array(each.lora_a) @ np.array(each.lora_b))
        a, b = found[f"{path}.lora_a"], found[f"{path}.lora_b"]
        assert a.shape[1] == b.shape[0] == 5
        assert np.abs(7.0 * (a @ b) - wanted).max() < 1e-4


@pytest.mark.parametrize("method", ["dpo", "orpo"])
def test_preferences_are_learned(tmp_path: Path, method: str) -> None:
    make_model(tmp_path / "model")
    rows = [{"prompt": f"{n}?", "chosen": "good", "rejected": "bad!"} for n in range(8)]
    write_rows(tmp_path / "data", rows)
    result = run(
        config_of(tmp_path, method=method, iters=15, learning_rate=0.003), tmp_path / "home"
    )
    assert result.measured_on == "training"
    assert result.after.accuracy == 1.0
    assert result.after.loss < result.before.loss


KILLED = {"iters": 14, "steps_per_save": 2, "steps_per_eval": 5, "lora_dropout": 0.3} | {
    "sft_lr_schedule": "cosine",
    "grad_accumulation_steps": 2,
    "lora_plus_ratio": 4,
}


def test_goes_on_bit_for_bit_after_kill_9(place: Path) -> None:
    unbroken = config_of(place, **KILLED, adapter_path=str(place / "unbroken"))
    run(unbroken, place / "home")
    dice = random.Random()
    command = [sys.executable, "-m", "tests.core.train.runs", str(place)]
    resume: list[str] = []
    for _ in range(2):
        last = dice.randint(3, 9)
        process = subprocess.Popen(
            [*command, *resume, json.dumps(KILLED)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= last:
                break
        process.kill()
        process.wait()
        process.stdout.close()
        resume = ["--resume"]
    result = run(config_of(place, **KILLED), place / "home", resume=True)
    assert result.step == 14
    assert same(adapter(place / "out"), adapter(place / "unbroken"))
    steps = [
        [json.loads(x)["step"] for x in (place / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("out", "unbroken")
    ]
    assert steps[0] == steps[1]


def test_asked_to_stop_it_saves_and_goes_on(place: Path) -> None:
    seen: list[int] = []
    config = config_of(place, iters=8)
    result = run(config, place / "home", on_step=seen.append, should_stop=lambda: len(seen) >= 3)
    assert (result.ended, result.step) == ("stopped", 3)
    whole = run(config, place / "home", resume=True)
    assert (whole.ended, whole.step) == ("done", 8)
    other = config_of(place, iters=8, adapter_path=str(place / "other"))
    run(other, place / "home")
    assert same(adapter(place / "out"), adapter(place / "other"))


def test_an_exploding_loss_keeps_the_last_good_adapter(place: Path) -> None:
    warm = config_of(place, iters=6, learning_rate=0.001, steps_per_save=1)
    good = run(warm, place / "home", should_stop=lambda: has_step(place / "out", 3))
    assert good.step == 3
    wild = config_of(place, iters=20, learning_rate=10.0, loss_limit=15.0, steps_per_save=1)
    with pytest.raises(MlxbunError, match=r"The loss became .* at step 5 .* step 3 is") as problem:
        run(wild, place / "home", resume=True)
    assert problem.value.hint is not None
    assert "learning_rate" in problem.value.hint
    assert not has_step(place / "out", 4)
    calm = config_of(place, iters=6, learning_rate=0.001, steps_per_save=1)
    assert run(calm, place / "home", resume=True).step == 6
    other = config_of(place, iters=6, learning_rate=0.001, adapter_path=str(place / "other"))
    run(other, place / "home")
    assert same(adapter(place / "out"), adapter(place / "other"))


def has_step(folder: Path, step: int) -> bool:
    return (folder / "checkpoints" / f"step-{step:08}.safetensors").exists()


def test_a_last_step_that_explodes_is_told(place: Path) -> None:
    config = config_of(place, iters=1, learning_rate=10.0, loss_limit=13.0)
    with pytest.raises(MlxbunError, match=r"as measured after step 1. No adapter was kept."):
        run(config, place / "home")
    assert not (place / "out" / "adapters.safetensors").exists()
    tame = config_of(place, iters=1, learning_rate=0.001)
    assert run(tame, place / "home").step == 1
    lines = (place / "out" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 1]


def test_an_adapter_that_is_worse_than_none_is_told(place: Path) -> None:
    events: list[TrainEvent] = []
    run(config_of(place, iters=1, learning_rate=10.0), place / "home", events=events)
    assert any("higher than before training" in e.line for e in events if isinstance(e, Note))


def test_stopped_before_the_first_step_it_leaves_nothing(place: Path) -> None:
    result = run(config_of(place), place / "home", should_stop=lambda: True)
    assert (result.ended, result.step, result.adapter_step) == ("stopped", 0, 0)
    assert run(config_of(place), place / "home").ended == "done"


def test_a_folder_that_cannot_be_written_is_told_first(place: Path) -> None:
    (place / "file").write_text("")
    config = config_of(place, adapter_path=str(place / "file" / "out"), model_dir="none")
    with pytest.raises(MlxbunError, match="cannot be written to"):
        run(config, place / "home")
    with pytest.raises(NotFound, match="There is no model"):
        run(config_of(place, model_dir="none"), place / "home")
    assert not (place / "out").exists()


@pytest.mark.parametrize("data", ["~nobody-of-that-name/x", "x" * 5000])
def test_data_that_no_folder_can_hold(place: Path, data: str) -> None:
    with pytest.raises((NotFound, UsageProblem)):
        run(config_of(place, data_dir=data), place / "home")


def test_the_best_adapter_is_kept_and_training_ends_early(place: Path) -> None:
    config = config_of(
        place, iters=60, learning_rate=0.08, steps_per_eval=1, early_stopping=3, loss_limit=1e6
    )
    events: list[TrainEvent] = []
    result = run(config, place / "home", events=events)
    losses = {
        e.step: e.loss for e in events if isinstance(e, Metric) and e.kind == "val" and e.step
    }
    assert result.ended == "early"
    assert result.adapter_step == min(losses, key=losses.__getitem__) < result.step
    assert result.after.loss == losses[result.adapter_step]


def _full_disk(*_args: Any, **_more: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(place, iters=6, steps_per_save=2)
    full: list[Callable[[], None]] = []

    def at_step(step: int) -> None:
        if step == 3:
            monkeypatch.setattr(core.train.checkpoint, "atomic_write", _full_disk)
            monkeypatch.setattr(core.train.adapter, "atomic_write", _full_disk)
            full.append(monkeypatch.undo)

    events: list[TrainEvent] = []
    with pytest.raises(MlxbunError, match=r"No space left on device. The checkpoint of step 2"):
        run(config, place / "home", events=events, on_step=at_step)
    assert [event.step for event in events if isinstance(event, Saved)] == [2]
    assert any("could not be written" in e.line for e in events if isinstance(e, Note))
    full[0]()
    assert run(config, place / "home", resume=True).step == 6
    other = config_of(place, iters=6, adapter_path=str(place / "other"))
    run(other, place / "home")
    assert same(adapter(place / "out"), adapter(place / "other"))


def test_a_full_disk_does_not_keep_a_training_from_going_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    run(config_of(place), place / "home", on_step=seen.append, should_stop=lambda: len(seen) > 2)
    monkeypatch.setattr(core.train.loop, "atomic_write", _full_disk)
    assert run(config_of(place), place / "home", resume=True).step == 6


def test_a_disk_with_room_for_two_checkpoints_keeps_the_newest(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place / "out" / "checkpoints"
    write = core.paths.atomic_write

    def small_disk(target: Path) -> Any:
        return _full_disk() if len(list(folder.glob("*"))) >= 2 else write(target)

    monkeypatch.setattr(core.train.checkpoint, "atomic_write", small_disk)
    run(config_of(place, iters=6, steps_per_save=1), place / "home")
    assert has_step(place / "out", 6)


def test_a_disk_that_is_full_from_the_first_step_is_no_place_to_go_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (core.train.checkpoint, core.train.adapter):
        monkeypatch.setattr(module, "atomic_write", _full_disk)
    with pytest.raises(MlxbunError, match="cannot be written") as problem:
        run(config_of(place), place / "home")
    assert problem.value.hint == "Make room, and run it again."


def test_a_best_adapter_that_finds_no_room_is_not_claimed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_step(step: int) -> None:
        if step == 3:
            monkeypatch.setattr(core.train.adapter, "atomic_write", _full_disk)
        if step == 5:
            monkeypatch.undo()

    config = config_of(place, iters=6, learning_rate=0.0001, steps_per_eval=2)
    result = run(config, place / "home", on_step=at_step)
    assert result.adapter_step == 6
    worse = config_of(
        place, iters=5, learning_rate=0.08, steps_per_eval=2, adapter_path=str(place / "worse")
    )
    result = run(worse, place / "home", on_step=lambda s: at_step(3) if s == 2 else at_step(s))
    assert result.adapter_step == 5


def test_only_one_trains_into_a_folder(place: Path) -> None:
    with only_training(place / "out"), pytest.raises(AlreadyRunning):
        run(config_of(place), place / "home")


def test_what_cannot_go_on(place: Path) -> None:
    with pytest.raises(NotFound, match="no checkpoint"):
        run(config_of(place), place / "home", resume=True)
    run(config_of(place), place / "home")
    with pytest.raises(UsageProblem, match="holds an adapter already"):
        run(config_of(place), place / "home")
    with pytest.raises(UsageProblem, match="trained with rank 4, not 8"):
        run(config_of(place, rank=8), place / "home", resume=True)
    write_rows(place / "data", sums(11))
    with pytest.raises(UsageProblem, match="The data are others"):
        run(config_of(place), place / "home", resume=True)


def test_another_model_does_not_go_on(place: Path) -> None:
    seen: list[int] = []
    run(config_of(place), place / "home", on_step=seen.append, should_stop=lambda: len(seen) > 2)
    unfinished = place / "out" / "checkpoints" / ".step-00000004.safetensors.0123456789abcdef.tmp"
    unfinished.write_text("")
    make_model(place / "model", seed=5)
    with pytest.raises(UsageProblem, match="The model is another one"):
        run(config_of(place), place / "home", resume=True)
    assert not unfinished.exists()


def test_more_memory_than_there_is_is_told(place: Path) -> None:
    events: list[TrainEvent] = []
    run(config_of(place, iters=1), place / "home", events=events, memory_budget=0.0005)
    told = [event.line for event in events if isinstance(event, Note)]
    assert any("the budget is 500 kB: a smaller batch_size" in line for line in told)


def test_warm_start_from_ranks_that_differ(place: Path) -> None:
    make_model(place / "mixed", bits=4)
    file = place / "mixed" / "config.json"
    config = json.loads(file.read_text())
    path = "model.layers.0.self_attn.q_proj"
    weights: Any = mx.load(str(place / "mixed" / "model.safetensors"))
    plain = 0.1 * mx.random.normal((64, 64))
    for part, array in zip(("weight", "scales", "biases"), mx.quantize(plain, 32, 8), strict=True):
        weights[f"{path}.{part}"] = array
    mx.save_safetensors(str(place / "mixed" / "model.safetensors"), weights)
    config["quantization"][path] = {"group_size": 32, "bits": 8}
    file.write_text(json.dumps(config))
    scaled = {"model_dir": str(place / "mixed"), "rank_scaling": "by_bits"}
    first = run(config_of(place, **scaled), place / "home")
    again = config_of(
        place,
        adapter_path=str(place / "two"),
        warm_start_adapter=str(place / "out"),
        iters=1,
        **scaled,
    )
    second = run(again, place / "home")
    assert second.before.loss == pytest.approx(first.after.loss, abs=1e-4)


def test_warm_start(place: Path) -> None:
    first = run(config_of(place, rs_lora=True), place / "home")
    again = config_of(
        place, adapter_path=str(place / "two"), warm_start_adapter=str(place / "out"), iters=1
    )
    second = run(again, place / "home")
    assert second.before.loss == pytest.approx(first.after.loss, abs=1e-4)
    with pytest.raises(UsageProblem, match=r"Set rank|is trained"):
        run(
            config_of(
                place, adapter_path=str(place / "x"), warm_start_adapter=str(place / "out"), rank=2
            ),
            place / "home",
        )
