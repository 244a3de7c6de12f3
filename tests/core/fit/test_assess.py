"""Verdicts: what fits which machine, what to do where it does not, and what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.figures import Figure, FigureStore, MachineIdentity
from core.fit.advice import verdict
from core.fit.assess import STEP_ROWS, STEP_TOKENS, Assessment, Assessor, Question
from core.fit.batching import Batching, BatchingShelf
from core.fit.candidate import read_candidate
from core.fit.config import NO_LIMIT
from core.fit.host import Host, find_host, host_of, sku_host
from core.fit.machines import Speed, find_skus, load_skus
from core.fit.memory import PREFILL_CPU, PREFILL_GPU
from core.machine.compute import ComputePlan
from core.machine.probe import Machine
from core.paths import Paths
from core.registry.resolve import ModelRef
from core.settings import Settings
from core.units import GIB
from tests.core.figures.runs import make_run
from tests.core.fit.large import llama_8b
from tests.tiny import llama_config, make_model

EPYC = Machine(
    system="Linux",
    architecture="x86_64",
    processor="AMD EPYC",
    cores=2,
    memory_bytes=24 * GIB,
    backend="cpu",
    compiler="/usr/bin/g++",
    python="3.12.0",
)


def plan_of(machine: Machine = EPYC, **changes: Any) -> ComputePlan:
    given: dict[str, Any] = {
        "machine": machine,
        "blas": "OpenBLAS",
        "fast_blas": True,
        "compile_kernels": True,
        "dequantize": "auto",
        "notes": (),
    }
    return ComputePlan(**(given | changes))


def mac(name: str) -> Host:
    (sku,) = find_skus(name)
    return sku_host(sku)


def assessor_of(folder: Path, figures: FigureStore | None = None) -> Assessor:
    return Assessor(read_candidate(ModelRef(model_id=folder.name, folder=folder)), figures=figures)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Assessor:
    """Llama 3.1 8B at 4 bits."""
    return assessor_of(llama_8b(tmp_path_factory.mktemp("models") / "Llama-8B-4bit", bits=4))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Assessor:
    """Llama 3.1 8B in bfloat16."""
    return assessor_of(llama_8b(tmp_path_factory.mktemp("models") / "Llama-8B"))


def test_a_known_model_has_its_known_sizes(packed: Assessor, plain: Assessor) -> None:
    question = Question(context=8192)
    found = plain.assess(mac("M4 Max 64"), question)
    assert found.candidate.weights.parameters == 8_030_261_248  # as its card says: 8.03B
    assert found.memory.weights_bytes == 2 * 8_030_261_248
    # 32 layers x 8 heads x 128 numbers x 2 of 2 bytes: 128 KiB a token.
    assert found.kv_token_bytes == 128 * 1024
    assert found.memory.kv_bytes == GIB
    four = packed.assess(mac("M4 Max 64"), question)
    assert four.candidate.weights.parameters == 8_030_261_248
    assert 8 * four.memory.weights_bytes / 8_030_261_248 == pytest.approx(4.5, abs=0.001)


def test_what_an_engine_has_tried_here_is_told_here_only(packed: Assessor, tmp_path: Path) -> None:
    candidate = packed._candidate
    shelf = BatchingShelf(tmp_path)
    here, question = host_of(plan_of(), None), Question(context=256, rows=2)
    assessor = Assessor(candidate, shelf=shelf)
    assert assessor.assess(here, question).batching is None
    serial = Batching(mode="serial", reason="It fails in a batch.")
    assert candidate.folder
    shelf.keep(candidate.folder, EPYC.backend, serial)
    found = assessor.assess(here, question)
    assert found.batching == serial
    assert any("one after the other" in note for note in found.notes)
    assert assessor.assess(mac("M4 Max 64"), question).batching is None


def test_the_verdict_of_what_fits(packed: Assessor) -> None:
    found = packed.assess(mac("M4 Pro 24 GB (20-core GPU)"), Question())
    assert found.fits
    assert found.advice is None
    assert found.context == 8192
    assert found.max_context < 131_072
    shown = verdict(found)
    assert shown.startswith("fits: ")
    assert f"of 17.2 GB usable at 8,192 tokens; up to {found.max_context:,} tokens" in shown


def test_the_longest_context_fits_and_the_next_one_does_not(packed: Assessor) -> None:
    host = mac("M4 16")
    longest = packed.assess(host, Question()).max_context
    assert longest % 256 == 0
    assert packed.assess(host, Question(context=longest)).fits
    assert not packed.assess(host, Question(context=longest + 1)).fits


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_the_longest_context_is_that_of_each_row(packed: Assessor, rows: int) -> None:
    host = mac("M4 Max 36")
    longest = packed.assess(host, Question(rows=rows)).max_context
    assert packed.assess(host, Question(context=longest, rows=rows)).fits
    assert not packed.assess(host, Question(context=longest + 1, rows=rows)).fits


def test_more_than_it_was_made_for_does_not_fit(packed: Assessor) -> None:
    found = packed.assess(mac("M3 Ultra 512"), Question(context=200_000))
    assert not found.fits
    assert verdict(found) == (
        "does not fit: 200,000 tokens are asked for, the model was made for 131,072; "
        "use --ctx 131072"
    )


@pytest.mark.parametrize(
    ("host", "question", "told"),
    [
        ("M4 16", Question(context=100_000), r"; use --ctx \d+$"),
        ("M4 16", Question(context=8192, rows=16), r"; use --batch \d+$"),
        ("M1 8", Question(), r"; use --ctx \d+$"),
    ],
)
def test_advice_is_kept_by_the_next_question(
    packed: Assessor, host: str, question: Question, told: str
) -> None:
    import re

    found = packed.assess(mac(host), question)
    assert not found.fits
    shown = verdict(found)
    assert re.search(r"^does not fit: needs [\d.]+ GB at .* tokens, has [\d.]+ GB" + told, shown)
    assert found.advice is not None
    option, value = found.advice.split()
    better = (
        Question(context=int(value), rows=question.rows)
        if option == "--ctx"
        else Question(context=question.context, rows=int(value))
    )
    assert packed.assess(mac(host), better).fits


def test_weights_that_are_too_large_want_fewer_bits(plain: Assessor) -> None:
    found = plain.assess(mac("M4 16"), Question(context=4096))
    assert found.advice is not None
    assert found.advice.startswith("a quantization of at most ")
    assert "(this one has 16.0)" in found.advice


def test_what_no_quantization_saves_wants_a_smaller_model(plain: Assessor) -> None:
    tiny = Host(
        name="a watch",
        memory_bytes=10**9,
        usable_bytes=10**9,
        gpu=True,
        speed=Speed(bandwidth=None, fp16=None),
    )
    found = plain.assess(tiny, Question())
    assert found.advice == "a smaller model: at 4 bits, fewer than 1.78B parameters fit"
    assert found.max_context == 0
    assert found.prediction is None


def test_amounts_that_look_alike_are_told_apart(plain: Assessor) -> None:
    needed = plain.assess(mac("M3 Ultra 512"), Question(context=1000)).needed_bytes
    host = Host(
        name="a Mac",
        memory_bytes=2 * needed,
        usable_bytes=needed - 1_000_000,
        gpu=True,
        speed=Speed(bandwidth=None, fp16=None),
    )
    shown = verdict(plain.assess(host, Question(context=1000)))
    need, have = shown.split("needs ")[1].split(" MB")[0], shown.split("has ")[1].split(" MB")[0]
    assert need != have


def test_quantized_kv_counts_its_scales(packed: Assessor) -> None:
    host = mac("M4 Max 64")
    full = packed.assess(host, Question(context=4096))
    eight = packed.assess(host, Question(context=4096, kv_bits=8))
    four = packed.assess(host, Question(context=4096, kv_bits=4))
    assert eight.memory.kv_bytes == full.memory.kv_bytes * (8 + 0.5) / 16
    assert four.memory.kv_bytes == full.memory.kv_bytes * (4 + 0.5) / 16


def test_the_matrix_holds_every_mac_at_32k(packed: Assessor) -> None:
    matrix = packed.matrix()
    assert [found.host.name for found in matrix] == [sku.name for sku in load_skus()]
    assert {found.context for found in matrix} == {32_768}
    assert all(found.prediction is not None for found in matrix)
    fitting = {found.host.memory_bytes // GIB for found in matrix if found.fits}
    failing = {found.host.memory_bytes // GIB for found in matrix if not found.fits}
    assert min(fitting) > max(failing)


def test_the_matrix_stays_within_the_window(tmp_path: Path) -> None:
    small = assessor_of(make_model(tmp_path / "tiny"))
    assert {found.context for found in small.matrix()} == {512}


def test_this_machine_unpacks_where_its_engine_would(packed: Assessor) -> None:
    host = host_of(plan_of(), 64.0)
    assert host.usable_bytes == 64 * 10**9
    found = packed.assess(host, Question(context=1000))
    assert (found.storage, found.kv_float_bytes) == ("unpacked", 4)
    assert found.memory.weights_bytes == 4 * 8_030_261_248
    # With 24 GB, 32 GB of float32 do not fit: scales are widened, weights stay packed.
    found = packed.assess(host_of(plan_of(), None), Question(context=1000))
    assert (found.storage, found.kv_float_bytes) == ("widened", 4)


def test_leaving_weights_packed_is_advised_where_the_user_unpacks(packed: Assessor) -> None:
    host = host_of(plan_of(dequantize="on"), None)
    found = packed.assess(host, Question(context=1000))
    assert found.advice == "--dequantize off"


def test_a_gpu_keeps_weights_as_stored_within_its_working_set(packed: Assessor) -> None:
    apple = Machine(
        system="Darwin",
        architecture="arm64",
        processor="Apple M4 Pro",
        cores=14,
        memory_bytes=48 * GIB,
        backend="metal",
        compiler=None,
        python="3.12.0",
    )
    host = host_of(plan_of(apple, fast_blas=False), None)
    assert (host.gpu, host.usable_bytes) == (True, 36 * GIB)
    found = packed.assess(host, Question())
    assert found.storage == "stored"
    assert found.prediction is not None


def test_no_backend_is_said_and_not_in_the_way(
    packed: Assessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.machine.probe._installed", lambda name: False)
    paths = Paths(home=tmp_path, cache=tmp_path, hub_cache=tmp_path)
    host = find_host(Settings(memory_budget=20.0), paths, {})
    found = packed.assess(host, Question())
    assert found.fits
    assert any("no compute backend" in note for note in found.notes)


def test_the_engine_keeps_as_much_free() -> None:
    from core.engine import loader, worker

    assert (STEP_TOKENS, STEP_ROWS) == (loader._PREFILL_TOKENS, loader._ROWS)
    assert (PREFILL_CPU, PREFILL_GPU) == (worker._MOST_PREFILL_CPU, worker._MOST_PREFILL_GPU)
    assert loader._NO_CONTEXT_LIMIT == NO_LIMIT


@pytest.mark.parametrize("budget_mb", [0.8, 1.5, 3, 10])
def test_the_engine_admits_what_fits_and_no_more_than_is_said(
    tmp_path: Path, budget_mb: float
) -> None:
    from core.engine.loader import load
    from core.engine.request import SamplingParams
    from core.errors import DoesNotFit

    folder = make_model(tmp_path / "tiny", config=llama_config(max_position_embeddings=100_000))
    plan = plan_of()
    host = host_of(plan, budget_mb / 1000)
    found = assessor_of(folder).assess(host, Question(context=256))
    try:
        loaded = load(
            folder,
            model_id="tiny",
            plan=plan,
            defaults=SamplingParams(),
            memory_budget_gb=budget_mb / 1000,
        )
    except DoesNotFit:
        assert not found.fits
        return
    admitted = loaded.admission.max_context
    assert found.max_context <= admitted
    reserved = found.reserved_bytes
    # Of the two rules, the engine's own agrees to the byte.
    assert (reserved <= host.usable_bytes) == (admitted >= 256)


@pytest.fixture
def store(tmp_path: Path) -> FigureStore:
    return FigureStore(tmp_path / "bench.db")


IDENTITY = MachineIdentity(processor="AMD EPYC", cores=2, memory_bytes=24 * GIB, backend="cpu")
FIGURES = (
    Figure.of("prefill", 128, (300.0,)),
    Figure.of("prefill", 2048, (200.0,)),
    Figure.of("decode", 1, (20.0, 22.0, 21.0)),
    Figure.of("decode", 4, (60.0,)),
)


def measured(store: FigureStore, folder: Path, question: Question, **changes: Any) -> Assessment:
    assessor = assessor_of(folder, store)
    candidate = read_candidate(ModelRef(model_id=folder.name, folder=folder))
    given = {
        "model_id": folder.name,
        "revision": candidate.revision,
        "machine": IDENTITY,
        "figures": FIGURES,
    }
    store.add(make_run(**(given | changes)))
    return assessor.assess(host_of(plan_of(), None), question)


def test_a_measured_figure_is_preferred(store: FigureStore, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "tiny")
    found = measured(store, folder, Question(context=500))
    assert found.prediction is None
    assert found.measured is not None
    assert (found.decode, found.measured.day) == (21.0, "2026-11-29")
    assert (found.measured.prefill, found.measured.prefill_tokens) == (300.0, 128)
    assert found.measured.ttft == pytest.approx(500 / 300 + 1 / 21)


def test_rows_have_their_own_figure(store: FigureStore, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "tiny")
    assert measured(store, folder, Question(context=500, rows=4)).decode == 60.0
    assert measured(store, folder, Question(context=500, rows=3)).decode is None


@pytest.mark.parametrize(
    "changes",
    [
        {"revision": "another"},
        {"model_id": "another"},
        {"machine": MachineIdentity(processor="M4", cores=2, memory_bytes=1, backend="cpu")},
        {"complete": False},
        {"measured_at": "yesterday"},
        {"figures": (Figure.of("ttft_warm", 128, (1.0,)),)},
    ],
)
def test_other_runs_are_of_no_use(
    store: FigureStore, tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = make_model(tmp_path / "tiny")
    assert measured(store, folder, Question(), **changes).measured is None


def test_another_machine_has_nothing_measured(store: FigureStore, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "tiny")
    measured(store, folder, Question())
    assert assessor_of(folder, store).assess(mac("M4 16"), Question()).measured is None


def test_a_model_without_a_window_has_no_longest_context(tmp_path: Path) -> None:
    from benchmarks.fit_error import MODELS

    config = dict(MODELS["mamba2"], num_hidden_layers=2, hidden_size=64, vocab_size=300)
    config |= {"num_heads": 2, "intermediate_size": 128, "state_size": 16}
    del config["max_position_embeddings"]
    found = assessor_of(make_model(tmp_path / "ssm", config=config)).assess(
        mac("M4 16"), Question(context=10**6)
    )
    assert found.fits
    assert found.max_context == NO_LIMIT
    assert verdict(found).endswith("; up to any length")


def test_an_unknown_architecture_is_said_to_be_approximate(tmp_path: Path) -> None:
    import json

    folder = make_model(tmp_path / "odd")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "novel"}))
    found = assessor_of(folder).assess(mac("M4 16"), Question())
    assert any("'novel' is not in our table" in note for note in found.notes)
    assert any("cannot be run: mlx-lm" in note and "type novel." in note for note in found.notes)
    assert found.fits
