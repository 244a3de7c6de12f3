"""What a comparison measures, against an independent computation and against itself."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx_lm.utils import compute_bits_per_weight, load_model

from core.engine.loader import unpack_weights
from core.errors import BadModelFiles, UsageProblem
from core.evals.measure import measure
from core.evals.streams import How, StoppedError, Watch
from core.evals.subjects import Subject, packed_subject
from core.evals.summary import Figures, clustered_mean, compare
from core.evals.table import ProofTable
from tests.core.evals.models import HOW, flip_scale, forms, load_weights, pair, subject, text
from tests.core.evals.reference import clustered, column, figures, of_domain
from tests.core.fit.tiny_families import build
from tests.tiny import llama_config, make_model

TEXT = text(17, 23, 9, 31, 12)
NUMBERS = ("perplexity", "kl", "kl_median", "kl_p99", "kl_max", "agreement", "loss_increase")


def _unpacked(one: Subject) -> Any:
    model = one.open()
    unpack_weights(model)
    return model


def test_the_figures_are_those_of_an_independent_computation(tmp_path: Path) -> None:
    original, packed = pair(tmp_path)
    table = measure(original, [packed], TEXT, how=HOW)
    tokens = figures(_unpacked(original), _unpacked(packed), TEXT.rows)
    (entry,) = table.candidates
    everything = [(entry.overall, tokens)]
    everything += [(entry.domains[name], of_domain(TEXT, tokens, name)) for name in "ab"]
    for found, rows in everything:
        loss, loss_se = clustered(column(rows, 0))
        kl, kl_se = clustered(column(rows, 1))
        same, same_se = clustered(column(rows, 2))
        rise, rise_se = clustered([[token[0] - token[3] for token in row] for row in rows])
        every = sorted(value for row in column(rows, 1) for value in row)
        assert (found.tokens, found.sequences) == (len(every), len(rows))
        assert found.perplexity == pytest.approx(math.exp(loss), rel=1e-5)
        assert found.perplexity_se == pytest.approx(math.exp(loss) * loss_se, rel=1e-4)
        assert found.kl == pytest.approx(kl, rel=1e-4)
        assert found.kl_se == pytest.approx(kl_se, rel=1e-3)
        assert found.kl_max == pytest.approx(every[-1], rel=1e-4)
        assert found.kl_median == pytest.approx(float(np.median(every)), rel=1e-3)
        assert found.kl_p99 == pytest.approx(float(np.percentile(every, 99)), rel=1e-3)
        assert found.agreement == pytest.approx(same)
        assert found.agreement_se == pytest.approx(same_se)
        assert found.loss_increase == pytest.approx(rise, rel=1e-3, abs=1e-6)
        assert found.loss_increase_se == pytest.approx(rise_se, rel=1e-3)
    assert entry.overall.kl > 1e-3
    assert table.original.overall.perplexity == pytest.approx(
        math.exp(clustered(column(tokens, 3))[0]), rel=1e-5
    )


def test_the_original_differs_from_itself_in_nothing(tmp_path: Path) -> None:
    original, _ = pair(tmp_path)
    table = measure(original, [subject(tmp_path / "base", "again", "other")], TEXT, how=HOW)
    for entry in table.entries:
        found = entry.overall
        assert (found.kl, found.kl_max, found.agreement, found.loss_increase) == (0, 0, 1, 0)
    assert table.comparisons == ()
    assert table.is_better is None


def test_layer_by_layer_gives_the_numbers_of_the_whole(tmp_path: Path) -> None:
    original, packed = pair(tmp_path, tie_word_embeddings=False, num_hidden_layers=4)
    whole = measure(original, [packed], TEXT, how=How(budget_bytes=10**9, layered=False))
    layered = measure(original, [packed], TEXT, how=How(budget_bytes=10**9, layered=True))
    assert [entry.computed for entry in whole.entries] == ["float32"] * 2
    assert [entry.computed for entry in layered.entries] == ["float32, layer by layer"] * 2
    _assert_same(whole, layered)


def test_what_does_not_fit_is_computed_layer_by_layer(tmp_path: Path) -> None:
    original, packed = pair(tmp_path)
    table = measure(original, [packed], TEXT, how=How(budget_bytes=1000))
    assert {entry.computed for entry in table.entries} == {"float32, layer by layer"}
    _assert_same(measure(original, [packed], TEXT, how=HOW), table)


def test_a_family_that_is_no_row_is_computed_as_a_whole() -> None:
    def load() -> Any:
        mx.random.seed(1)
        return build("gemma3n")

    original = Subject(name="base", role="original", open=load)
    rows = text(9, 12, vocabulary=32)
    how = How(budget_bytes=10**9, layered=True)
    table = measure(original, [Subject(name="again", role="other", open=load)], rows, how=how)
    assert table.candidates[0].overall.kl == pytest.approx(0, abs=1e-6)
    assert any("computed as a whole" in note for note in table.notes)


def test_weights_that_fit_nowhere_stay_packed(tmp_path: Path) -> None:
    """A family that has to be whole, in a memory that is too small to unpack it."""

    def load() -> Any:
        mx.random.seed(1)
        model = build("gemma3n")
        nn.quantize(model, group_size=32, bits=8, class_predicate=_of_32)
        return model

    first = Subject(name="base", role="original", open=load)
    again = Subject(name="again", role="other", open=load)
    rows = text(9, 12, vocabulary=32)
    small = measure(first, [again], rows, how=How(budget_bytes=1000))
    large = measure(first, [again], rows, how=HOW)
    assert small.original.computed == "float32, packed weights"
    assert small.original.overall.perplexity == pytest.approx(
        large.original.overall.perplexity, rel=1e-4
    )


def _of_32(_path: str, module: Any) -> bool:
    return hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    original, packed = pair(tmp_path)
    table = measure(original, [packed], TEXT, how=HOW)
    for entry in table.entries:
        model, _ = load_model(tmp_path / entry.name)
        header = 8 + 8192  # of the safetensors file, at most
        size = (tmp_path / entry.name / "model.safetensors").stat().st_size
        assert size - header < entry.size_bytes < size
        assert entry.bits_per_weight == compute_bits_per_weight(model)


def test_a_baseline_in_memory_is_what_a_file_would_be(tmp_path: Path) -> None:
    original, packed = pair(tmp_path)
    uniform = packed_subject(original, forms(packed, bits=4), name="uniform")
    table = measure(original, [packed, uniform], TEXT, how=HOW)
    written, memory = table.candidates
    assert memory.role == "uniform"
    assert memory.size_bytes == written.size_bytes
    assert memory.overall.kl == pytest.approx(written.overall.kl, abs=1e-6)
    (comparison,) = table.comparisons
    assert comparison.kl.value == pytest.approx(1, abs=1e-3)
    assert not table.is_better


@pytest.mark.parametrize(
    "name", ["model.layers.1.mlp.down_proj.scales", "model.embed_tokens.scales"]
)
def test_one_flipped_scale_changes_the_kl(tmp_path: Path, name: str) -> None:
    original, packed = pair(tmp_path)
    before = measure(original, [packed], TEXT, how=HOW).candidates[0].overall.kl
    flip_scale(tmp_path / "packed", name)
    after = measure(original, [packed], TEXT, how=HOW).candidates[0].overall.kl
    assert abs(after - before) > 1e-4


def test_fewer_bits_are_worse_and_more_are_better_beyond_the_bound(tmp_path: Path) -> None:
    original, packed = pair(tmp_path, bits=8)
    uniform = packed_subject(original, forms(packed, bits=2), name="2 bits")
    table = measure(original, [packed, uniform], TEXT, how=HOW)
    (comparison,) = table.comparisons
    assert comparison.kl.value is not None
    assert comparison.kl.high is not None
    assert comparison.kl.value < comparison.kl.high < 0.1
    assert table.is_better


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_finite_name_the_model(tmp_path: Path, value: float) -> None:
    original, packed = pair(tmp_path)
    file = tmp_path / "packed" / "model.safetensors"
    weights = load_weights(file)
    weights["model.norm.weight"] = mx.full(weights["model.norm.weight"].shape, value)
    mx.eval(weights)
    mx.save_safetensors(str(file), weights, metadata={"format": "mlx"})
    with pytest.raises(BadModelFiles, match="packed gives logits that are NaN or infinite"):
        measure(original, [packed], TEXT, how=HOW)
    broken = subject(tmp_path / "packed", "broken", "original")
    with pytest.raises(BadModelFiles, match="broken gives logits"):
        measure(broken, [], TEXT, how=HOW)


def test_other_vocabularies_are_refused_by_name_and_padding_is_left_out(tmp_path: Path) -> None:
    original, _ = pair(tmp_path)
    make_model(tmp_path / "wide", config=llama_config(vocab_size=300), seed=3)
    wide = subject(tmp_path / "wide", "wide")
    with pytest.raises(UsageProblem, match="wide has a vocabulary of 300 tokens, and base one"):
        measure(original, [wide], TEXT, how=HOW)
    with pytest.raises(UsageProblem, match="wide has a vocabulary"):
        measure(original, [wide], TEXT, how=HOW, vocabulary=280)
    table = measure(original, [wide], TEXT, how=HOW, vocabulary=259)
    assert table.candidates[0].overall.kl > 0


def test_text_of_other_tokens_is_refused(tmp_path: Path) -> None:
    original, _ = pair(tmp_path)
    with pytest.raises(UsageProblem, match="has the token"):
        measure(original, [], text(8, 8, vocabulary=5000), how=HOW)
    with pytest.raises(UsageProblem, match="less than two tokens"):
        measure(original, [], text(8, 1), how=HOW)


@pytest.mark.parametrize("layered", [True, False])
def test_it_ends_where_the_caller_wants(tmp_path: Path, layered: bool) -> None:
    original, packed = pair(tmp_path)
    calls = iter(range(10))
    watch = Watch(should_stop=lambda: next(calls) == 3)
    with pytest.raises(StoppedError):
        measure(original, [packed], TEXT, how=How(budget_bytes=10**9, layered=layered), watch=watch)
    assert next(calls) == 4


def test_progress_reaches_its_total(tmp_path: Path) -> None:
    original, packed = pair(tmp_path)
    seen: dict[str, tuple[int, int | None]] = {}
    watch = Watch(
        on_progress=lambda report: seen.update({report.task: (report.done, report.total)})
    )
    measure(original, [packed], TEXT, how=HOW, watch=watch)
    assert seen == {"measuring base": (5, 5), "measuring packed": (5, 5)}


def test_tokens_of_a_sequence_are_not_independent() -> None:
    """Ten copies of a token say no more than one: the error must not shrink by their number."""
    few = [np.array([value]) for value in (1.0, 2.0, 4.0)]
    many = [np.repeat(value, 10) for value in few]
    assert clustered_mean(many) == pytest.approx(clustered_mean(few))
    assert clustered_mean(few[:1]) == (1.0, None)


def test_the_bound_covers_what_it_should() -> None:
    """Of data whose ratio is known, the 95% interval holds it about 95% of the time."""
    draw = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        common = draw.gamma(4.0, 0.25, size=40)
        base = [_figures(value * draw.gamma(16, 1 / 16, 8)) for value in common]
        ours = [_figures(value * 0.6 * draw.gamma(16, 1 / 16, 8)) for value in common]
        ratio = compare("ours", ours, baseline="uniform", base=base, original=ours).kl
        assert ratio.low is not None
        assert ratio.high is not None
        held += ratio.low <= 0.6 <= ratio.high
    assert 180 <= held <= 199


def _figures(kl: Any) -> Figures:
    return Figures(domain="a", loss=np.zeros_like(kl), kl=kl, same=np.ones_like(kl))


def _assert_same(first: ProofTable, second: ProofTable) -> None:
    for one, other in zip(first.entries, second.entries, strict=True):
        for name in NUMBERS:
            expected = getattr(one.overall, name)
            assert getattr(other.overall, name) == pytest.approx(expected, rel=1e-4, abs=1e-6)
