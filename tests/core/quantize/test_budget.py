"""Widths that fit an amount of memory, and forms as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from core.errors import DoesNotFit, NotFound, UsageProblem
from core.fit.assess import Assessor, Question
from core.fit.candidate import ModelFiles, candidate_of, read_files
from core.fit.host import Host, sku_host
from core.fit.machines import find_skus
from core.fit.weights import Tensor
from core.paths import Paths
from core.quantize.budget import Wanted, bits_per_weight, packed_as, read_wanted, with_width
from core.quantize.form import Form
from core.quantize.plan import make_plan
from core.quantize.recipe import Recipe, make_recipe
from core.quantize.source import describe
from core.registry.resolve import ModelRef
from core.settings import Settings
from tests.core.fit.large import llama_8b
from tests.core.fit.tiny_families import build, tiny_config


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama_8b(tmp_path_factory.mktemp("models") / "Llama-8B")


def _host() -> Host:
    return sku_host(find_skus("M4 Max 64")[0])


def _chosen(recipe: Recipe, home: Path) -> Recipe:
    paths = Paths.from_environ({"HOME": str(home)})
    return with_width(recipe, host=_host(), settings=Settings(), paths=paths).recipe


@pytest.mark.parametrize(
    ("text", "form", "target"),
    [
        ("4bit", Form(bits=4, group_size=64), None),
        (" 3 ", Form(bits=3, group_size=64), None),
        ("8-bit", Form(bits=8, group_size=64), None),
        ("4bit-g32", Form(bits=4, group_size=32), None),
        ("MXFP4", Form(bits=4, group_size=32, mode="mxfp4"), None),
        ("nvfp4", Form(bits=4, group_size=16, mode="nvfp4"), None),
        ("4.5bpw", Form(bits=4, group_size=64), 4.5),
    ],
)
def test_forms_as_people_write_them(text: str, form: Form, target: float | None) -> None:
    assert read_wanted(text) == Wanted(form=form, target_bpw=target)


@pytest.mark.parametrize("text", ["", "7bit", "bits", "affine", "mxfp4-g64", "4bit-g48", "1e9bpw"])
def test_what_is_no_form(text: str) -> None:
    with pytest.raises(UsageProblem):
        read_wanted(text)


@pytest.mark.parametrize("target", [2.6, 3.5, 4.5, 6.25, 8.4])
def test_a_mean_width_has_the_bits_it_names(large: Path, target: float) -> None:
    files = read_files(ModelRef(model_id="x", folder=large))
    wanted = Wanted(form=Form(bits=4, group_size=64), target_bpw=target)
    assert bits_per_weight(packed_as(files, wanted)) == pytest.approx(target, abs=1e-4)


def test_a_mean_width_out_of_reach_names_the_range(large: Path) -> None:
    files = read_files(ModelRef(model_id="x", folder=large))
    for target, recipe, reach in (
        (2.4, Recipe(), "2.50 to 8.50"),
        (8.6, Recipe(), "2.50 to 8.50"),
        (5.0, Recipe(candidate_bits=("3", "4")), "3.50 to 4.50"),
    ):
        wanted = Wanted(form=Form(bits=4, group_size=64), target_bpw=target)
        with pytest.raises(UsageProblem, match=f"out of reach: .* {reach}"):
            packed_as(files, wanted, recipe)


def test_embeddings_that_stay_cost_their_bits(large: Path) -> None:
    files = read_files(ModelRef(model_id="x", folder=large))
    wanted = Wanted(form=Form(bits=4, group_size=64))
    whole = bits_per_weight(packed_as(files, wanted))
    kept = bits_per_weight(packed_as(files, wanted, Recipe(quantize_embeddings=False)))
    wide = bits_per_weight(packed_as(files, wanted, Recipe(embedding_bits=8)))
    assert whole < wide < kept


def test_overrides_count(large: Path) -> None:
    files = read_files(ModelRef(model_id="x", folder=large))
    wanted = Wanted(form=Form(bits=4, group_size=64))
    bits = [
        bits_per_weight(packed_as(files, wanted, Recipe(override=override)))
        for override in (("*=2",), (), ("*.down_proj=8",), ("*.down_proj=8", "*=keep"))
    ]
    assert bits == sorted(bits)
    assert bits[-1] == 16.0


@pytest.mark.parametrize("fit", ["5GB", "6GB", "7 GB", "12GB", "0.1TB"])
def test_the_widest_form_that_fits_is_chosen(large: Path, tmp_path: Path, fit: str) -> None:
    recipe = _chosen(Recipe(model_id=str(large), fit=fit), tmp_path)
    assert recipe.fit is None
    files = read_files(ModelRef(model_id="x", folder=large))
    needs = {
        bits: Assessor(
            candidate_of(packed_as(files, Wanted(form=Form(bits=bits, group_size=64))))
        ).needed_bytes(_host(), Question())
        for bits in (2, 3, 4, 5, 6, 8)
    }
    budget = float(fit.removesuffix("TB").removesuffix("GB")) * 1e9
    budget *= 1000 if fit.endswith("TB") else 1
    assert recipe.bits == max(bits for bits, need in needs.items() if need <= budget)


def test_the_choice_says_its_context(large: Path, tmp_path: Path) -> None:
    paths = Paths.from_environ({"HOME": str(tmp_path)})
    found = with_width(
        Recipe(model_id=str(large), fit="6GB"), host=_host(), settings=Settings(), paths=paths
    )
    assert found.note is not None
    assert "at 8,192 tokens" in found.note


def test_what_fits_at_no_width(large: Path, tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match="at no width") as caught:
        _chosen(Recipe(model_id=str(large), fit="2GB"), tmp_path)
    assert (caught.value.have, caught.value.need > 2e9) == (2 * 10**9, True)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (Recipe(model_id="x", fit="much"), "must be a size such as 6GB, not 'much'"),
        (Recipe(model_id="x", fit="6"), "must be a size such as 6GB, not '6'"),
        (Recipe(fit="6GB"), "needs model_id"),
    ],
)
def test_what_cannot_be_chosen(recipe: Recipe, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=said):
        _chosen(recipe, tmp_path)


def test_a_model_that_is_not_here(tmp_path: Path) -> None:
    for name in ("org/name", "starter"):
        with pytest.raises(NotFound):
            _chosen(Recipe(model_id=name, fit="6GB"), tmp_path)


def test_without_fit_nothing_changes(tmp_path: Path) -> None:
    recipe = Recipe(model_id="nowhere")
    assert _chosen(recipe, tmp_path) is recipe


@pytest.mark.parametrize(
    "fields",
    [
        {"bits": 4, "group_size": 32},
        {"mode": "nvfp4"},
        {"mode": "mxfp8", "embedding_bits": 4},
        {"mode": "mxfp4", "embedding_bits": 8},
        {"mode": "mxfp4", "override": ["*embed_tokens=6", "*.o_proj=keep"]},
    ],
)
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "phi3", "mixtral", "granite"])
def test_the_estimate_is_what_the_plan_writes(family: str, fields: dict[str, Any]) -> None:
    model = build(family)
    model.set_dtype(mx.bfloat16)
    names = {mx.bfloat16: "BF16", mx.float32: "F32"}
    tensors = [
        Tensor(name=name, dtype=names[array.dtype], shape=array.shape, nbytes=array.nbytes)
        for name, array in tree_flatten(model.parameters())
    ]
    files = ModelFiles(
        model_id="org/name", revision="1", folder=None, config=tiny_config(family), tensors=tensors
    )
    recipe = make_recipe(fields)
    layers, sums = describe(model)
    made = packed_as(files, Wanted(form=recipe.form), recipe)
    assert sum(each.nbytes for each in made.tensors) == make_plan(layers, sums, recipe).nbytes
