"""Tables as files, for people, in cards; their limits; and claims that are measured again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadModelFiles, ProofFailed
from core.evals.measure import measure
from core.evals.record import FILE, Record, Source, figures_of, read_record, write_record
from core.evals.shown import as_text
from core.evals.subjects import packed_subject
from core.evals.table import Comparison, Entry, ProofTable, Ratio, Summary, require_limits
from core.evals.verify import check_claims, require_true
from core.provenance import Provenance, read_provenance, write_provenance
from tests.core.evals.models import HOW, flip_scale, forms, pair, text


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ProofTable:
    """Return the table of a packed model and a uniform baseline of fewer bits."""
    original, packed = pair(tmp_path_factory.mktemp("pair"))
    uniform = packed_subject(original, forms(packed, bits=3), name="uniform")
    return measure(original, [uniform, packed], text(20, 20, 20, 20), how=HOW)


def _record(table: ProofTable | None) -> Record:
    return Record(
        source=Source(model_id="org/base", revision="0" * 40),
        recipe={"bits": 4, "override": ["lm_head=8"]},
        calibration="c" * 64,
        table=table,
        baseline={"model.layers.0": {"bits": 3, "group_size": 32, "mode": "affine"}},
        sweep={"kl": [1.5, None]},
        notes=("a note",),
        versions={"mlxbun": "0.1.0"},
    )


def test_a_record_comes_back_as_it_was_written(tmp_path: Path, table: ProofTable) -> None:
    for record in (_record(table), _record(None)):
        write_record(tmp_path, record)
        assert read_record(tmp_path) == record
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
    assert read_record(tmp_path / "elsewhere") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.pop("source"), "source"),
        (lambda found: found.update(schema=2), "a newer mlxbun"),
        (lambda found: found["table"]["entries"][0].update(role="best"), "role"),
        (lambda found: found["table"]["entries"][0]["overall"].update(kl="0"), "kl"),
        (lambda found: found["table"]["entries"][0]["overall"].pop("tokens"), "tokens"),
        (lambda found: found.update(table=[]), "table"),
        (lambda found: found.update(baseline=None), "baseline"),
    ],
)
def test_a_record_of_another_form_is_refused(
    tmp_path: Path, table: ProofTable, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    write_record(tmp_path, _record(table))
    content = json.loads((tmp_path / FILE).read_text())
    change(content)
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(BadModelFiles, match=said):
        read_record(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{", "", "[" * 100_000])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(BadModelFiles, match="not a JSON object"):
        read_record(tmp_path)


def test_the_text_has_every_figure_of_every_model(table: ProofTable) -> None:
    lines = as_text(table).splitlines()
    assert lines[0].split() == ["FIGURE", "base", "uniform", "packed"]
    cells = {line[:17].strip(): re.split(r"  +", line[17:].strip()) for line in lines[1:9]}
    overall = table.entries[2].overall
    for name, value in (
        ("KL, median", overall.kl_median),
        ("KL, 99%", overall.kl_p99),
        ("KL, maximum", overall.kl_max),
    ):
        assert cells[name][0] == "-"  # the original differs from itself in nothing
        assert cells[name][2] == f"{value:.5f}"
    assert cells["KL, mean (nats)"][2] == f"{overall.kl:.5f} ± {overall.kl_se:.5f}"
    agreement = f"{overall.agreement:.4f} ± {overall.agreement_se:.4f}"
    assert cells["top-1 agreement"][2] == agreement
    domains = [line.split()[:3] for line in lines[11:15]]
    assert domains == [[d, "38", name] for d in "ab" for name in ("uniform", "packed")]
    assert "packed against uniform: KL 0." in lines[-1]
    assert lines[-1].endswith("better.")


def test_limits_name_what_is_missed(table: ProofTable) -> None:
    entry = table.entries[2]
    kl, agreement = entry.overall.kl, entry.overall.agreement
    require_limits(entry, min_agreement=None, max_kl=None)
    require_limits(entry, min_agreement=agreement, max_kl=kl)
    with pytest.raises(ProofFailed, match="packed misses its limits: mean KL"):
        require_limits(entry, min_agreement=agreement, max_kl=kl * 0.999)
    with pytest.raises(ProofFailed, match=r"agreement is .*; mean KL is"):
        require_limits(entry, min_agreement=agreement + 0.001, max_kl=0.0)


@pytest.mark.parametrize(
    ("high", "better"), [(0.99, True), (1.0, False), (1.01, False), (None, False)]
)
def test_better_is_what_is_better_beyond_the_bound(
    table: ProofTable, high: float | None, better: bool
) -> None:
    ratio = Ratio(value=0.5, low=0.1, high=high)
    comparison = Comparison(model="m", baseline="b", kl=ratio, perplexity_increase=ratio)
    assert replace(table, comparisons=(comparison,)).is_better is better


def test_figures_go_into_a_card_and_back(tmp_path: Path, table: ProofTable) -> None:
    figures = figures_of(table)
    write_provenance(tmp_path, Provenance(figures=figures))
    known = read_provenance(tmp_path)
    assert known is not None
    assert known.figures == figures
    named = {(figure.name, figure.data): figure for figure in figures}
    overall = next(each for each in figures if each.name == "KL divergence, mean")
    uniform = table.entry("uniform")
    assert uniform is not None
    assert overall.value == table.entries[2].overall.kl
    assert overall.error == table.entries[2].overall.kl_se
    assert overall.uniform_value == uniform.overall.kl
    assert named["perplexity", "a"].base_value == table.original.domains["a"].perplexity


def test_the_same_numbers_hold_and_a_device_may_round(table: ProofTable) -> None:
    require_true(check_claims(table, table))
    rounded = _with(table, kl=lambda value: value * 1.005, perplexity=lambda value: value * 1.001)
    require_true(check_claims(table, rounded))


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("kl", 0.9),
        ("kl", 1.1),
        ("perplexity", 0.99),
        ("kl_p99", 0.8),
        ("agreement", 1.1),
        ("tokens", 2),
    ],
)
def test_an_edited_claim_is_caught(table: ProofTable, name: str, factor: float) -> None:
    claimed = _with(table, **{name: lambda value: value * factor})
    with pytest.raises(ProofFailed, match=f"The table does not hold: {name} of packed is"):
        require_true(check_claims(claimed, table))


def test_an_edited_size_domain_or_ratio_is_caught(table: ProofTable) -> None:
    *others, packed = table.entries
    smaller = replace(table, entries=(*others, replace(packed, size_bytes=packed.size_bytes - 1)))
    domains = dict(packed.domains)
    domains["b"] = replace(domains["b"], kl=domains["b"].kl / 2)
    nearer = replace(table, entries=(*others, replace(packed, domains=domains)))
    (comparison,) = table.comparisons
    assert comparison.kl.value is not None
    ratio = replace(comparison.kl, value=comparison.kl.value / 2)
    better = replace(table, comparisons=(replace(comparison, kl=ratio),))
    for edited in (smaller, nearer, better):
        false = [claim for claim in check_claims(edited, table) if not claim.holds]
        assert len(false) == 1


def test_claims_beyond_all_numbers_do_not_hold(table: ProofTable) -> None:
    *others, packed = table.entries
    for change in (
        {"size_bytes": 10**400},
        {"bits_per_weight": float("nan")},
        {"overall": replace(packed.overall, tokens=-(10**400))},
        {"overall": replace(packed.overall, kl=float("inf"))},
    ):
        edited = replace(table, entries=(*others, replace(packed, **change)))
        with pytest.raises(ProofFailed, match="does not hold"):
            require_true(check_claims(edited, table))


def test_a_table_of_another_text_or_model_is_refused(table: ProofTable) -> None:
    with pytest.raises(ProofFailed, match="another held-out text"):
        check_claims(replace(table, heldout="e" * 64), table)
    with pytest.raises(ProofFailed, match="no line for this model"):
        check_claims(table, replace(table, entries=table.entries[:1]))


def test_a_flipped_scale_breaks_the_claim(tmp_path: Path) -> None:
    original, packed = pair(tmp_path)
    rows = text(20, 20, 20, 20)
    claimed = measure(original, [packed], rows, how=HOW)
    require_true(check_claims(claimed, measure(original, [packed], rows, how=HOW)))
    flip_scale(tmp_path / "packed", "model.layers.1.mlp.down_proj.scales")
    with pytest.raises(ProofFailed, match="does not hold"):
        require_true(check_claims(claimed, measure(original, [packed], rows, how=HOW)))


def _with(table: ProofTable, **changes: Callable[[Any], Any]) -> ProofTable:
    """Return a table with other figures of its last model on all tokens."""
    *others, last = table.entries
    overall: Summary = last.overall
    new = {name: change(getattr(overall, name)) for name, change in changes.items()}
    changed: Entry = replace(last, overall=replace(overall, **new))
    return replace(table, entries=(*others, changed))
