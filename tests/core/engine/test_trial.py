"""Models tried in a batch: what is exact runs together, everything else alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from core.engine import trial, warmup
from core.engine.engine import Engine
from core.engine.trial import SAMPLE, is_passing, try_batching
from core.errors import BadModelFiles, EngineFailed
from core.fit.batching import Batching, BatchingShelf, BatchMode
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.test_apart import family_config
from tests.core.engine.test_engine import answer
from tests.core.fit.tiny_families import build
from tests.tiny import make_model

TOKENS = [byte % 250 for byte in SAMPLE.encode()]


def made(family: str, *, dtype: mx.Dtype = mx.float32) -> Any:
    mx.random.seed(0)
    model = build(family)
    wide = [(n, v * 4 if v.ndim > 1 else v) for n, v in tree_flatten(model.parameters())]
    model.load_weights(wide, strict=False)
    model.set_dtype(dtype)
    mx.eval(model.parameters())
    return model


@pytest.mark.parametrize(
    ("family", "mode"),
    [
        ("llama", "padded"),
        ("gemma3_text", "padded"),
        ("qwen3_moe", "padded"),
        ("deepseek_v3", "padded"),
        ("mamba", "joined"),
        ("jamba", "joined"),
        ("rwkv7", "joined"),
        ("lfm2", "joined"),
        ("gemma2", "serial"),
        ("gpt_bigcode", "serial"),
        ("llama4", "serial"),
        ("deepseek_v41", "serial"),
        ("afm7", "serial"),
        ("minimax_m3_vl", "serial"),
    ],
)
def test_each_architecture_runs_in_the_fastest_way_that_is_exact(
    family: str, mode: BatchMode
) -> None:
    found = try_batching(made(family), TOKENS, kind=family)
    assert found.mode == mode
    assert (found.reason is None) == (mode == "padded")
    assert found.reason is None or family in found.reason
    assert found.lane == ("serial" if mode == "serial" else "batched")
    assert found.serial_reason == (found.reason if mode == "serial" else None)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize(
    ("family", "mode"), [("llama", "padded"), ("gemma3_text", "padded"), ("afm7", "serial")]
)
def test_rounding_is_no_difference_and_a_fault_is_one_in_half_precision(
    family: str, mode: BatchMode, dtype: mx.Dtype
) -> None:
    assert try_batching(made(family, dtype=dtype), TOKENS, kind=family).mode == mode


def test_quantized_weights_are_no_difference() -> None:
    from mlx import nn

    model = made("llama", dtype=mx.bfloat16)
    nn.quantize(model, group_size=32, bits=4)
    assert try_batching(model, TOKENS, kind="llama").mode == "padded"


def test_padding_in_recurrent_state_is_found_by_its_results_too() -> None:
    model = made("mamba")
    tried = trial._Trial(model, TOKENS)
    assert tried.problem("padded") == "gives other results in a batch than alone"
    assert tried.problem("joined") is None


def test_flat_logits_hide_no_fault() -> None:
    mx.random.seed(0)
    model = build("jamba")  # nearly flat, as it is initialized
    assert trial._Trial(model, TOKENS).problem("padded") is not None


def test_a_short_window_is_filled() -> None:
    texts = trial._texts(TOKENS, 100)
    assert len(texts[0].prompt) > 100
    assert all(len(text.answer) >= 3 for text in texts)


def test_what_the_device_does_says_nothing_of_the_model() -> None:
    assert is_passing(MemoryError())
    assert is_passing(RuntimeError("[METAL] Command buffer execution failed: Caused GPU Timeout"))
    assert is_passing(RuntimeError("[malloc] Unable to allocate 5 bytes."))
    assert not is_passing(RuntimeError("matmul of shapes"))
    assert not is_passing(ValueError("no memory of this"))


# Through the engine.


@dataclass
class _Served:
    engine: Engine
    shelf: BatchingShelf
    folder: Path

    @property
    def kept(self) -> Batching | None:
        return self.shelf.find(self.folder, "cpu")


@pytest.fixture
def serve(open_tiny: OpenEngine, tmp_path: Path) -> Any:
    shelf = BatchingShelf(tmp_path / "batching")

    def served(family: str = "llama", **options: Any) -> _Served:
        folder = tmp_path / family
        if not folder.exists():
            make_model(folder, config=family_config(family))
        return _Served(open_tiny(folder, shelf=shelf, **options), shelf, folder)

    return served


def test_a_verdict_is_kept_and_nothing_is_tried_again(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = serve("jamba")
    assert first.kept == first.engine.info.batching
    assert first.kept.mode == "joined"

    def never(*_args: Any, **_kwargs: Any) -> Batching:
        raise AssertionError("it was tried again")

    monkeypatch.setattr(warmup, "try_batching", never)
    assert serve("jamba").engine.info.batching == first.kept


def test_a_damaged_verdict_is_made_anew(serve: Any) -> None:
    first = serve()
    (file,) = first.shelf._folder.iterdir()
    for damage in (
        b"",
        b"{}",
        b'{"mode": "fast", "reason": null}',
        b'{"mode": "padded"}',
        b"[1]",
        b"[" * 10**5,
    ):
        file.write_bytes(damage)
        assert first.kept is None
        assert serve().engine.info.batching.mode == "padded"
        assert first.kept == Batching(mode="padded")


def test_other_weights_are_tried_anew(serve: Any) -> None:
    served = serve()
    config = served.folder / "config.json"
    config.write_text(config.read_text() + "\n")
    assert served.kept is None


def test_one_row_at_a_time_is_not_tried(serve: Any) -> None:
    served = serve("gemma2", batch=1)
    assert served.kept is None
    assert served.engine.info.batching == Batching(mode="serial")
    assert answer(served.engine, "ab", max_tokens=3)[1].usage.lane == "serial"


def test_no_memory_for_the_trial_is_not_remembered(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_args: Any, **_kwargs: Any) -> Batching:
        raise RuntimeError("[malloc] Unable to allocate 5 bytes.")

    with monkeypatch.context() as patch:
        patch.setattr(warmup, "try_batching", no_memory)
        served = serve()
    assert served.kept is None
    assert served.engine.info.batching.mode == "serial"
    assert "could not be tried" in served.engine.info.batching.reason
    assert answer(served.engine, "ab", max_tokens=3)[1].usage.lane == "serial"
    assert serve().engine.info.batching.mode == "padded"


def test_a_verdict_that_does_not_hold_is_not_fatal(serve: Any) -> None:
    served = serve("gpt_bigcode")
    served.engine.close()
    served.shelf.keep(served.folder, "cpu", Batching(mode="padded"))
    again = serve("gpt_bigcode").engine
    assert again.info.batching.mode == "serial"
    assert "gpt_bigcode" in again.info.batching.reason
    assert answer(again, "ab", max_tokens=3)[1].usage.completion_tokens == 3


def test_no_memory_for_a_batch_later_is_not_blamed_on_the_architecture(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = serve().kept
    rehearse = warmup._rehearse

    def short(runner: Any, lengths: tuple[int, ...]) -> None:
        if runner.mode != "serial":
            raise RuntimeError("[malloc] Unable to allocate 5 bytes.")
        rehearse(runner, lengths)

    monkeypatch.setattr(warmup, "_rehearse", short)
    served = serve()
    reason = served.engine.info.batching.reason
    assert reason is not None
    assert "could not be tried" in reason
    assert "architecture" not in reason
    assert served.kept == kept


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (TypeError("unsupported operand"), BadModelFiles),
        (RuntimeError("[malloc] Unable to allocate 5 bytes."), EngineFailed),
    ],
)
def test_a_model_that_cannot_compute_a_token_ends_the_load_with_our_error(
    serve: Any, monkeypatch: pytest.MonkeyPatch, problem: Exception, error: type[Exception]
) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise problem

    monkeypatch.setattr(warmup, "_rehearse", fail)
    with pytest.raises(error, match="was loaded, but"):
        serve()
