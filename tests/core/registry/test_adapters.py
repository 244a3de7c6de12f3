"""One check of an adapter, by headers, which every verb that takes one uses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlx_lm.utils import load_model

import core.engine.loader
import core.train.model
from core.engine.start import start_engine
from core.errors import BadModelFiles, MlxbunError
from core.machine.compute import prepare_compute
from core.paths import Paths
from core.registry.adapters import Fit, check_adapter, fit_to_files, read_form
from core.registry.resolve import ModelRef
from core.settings import Settings
from core.train.fuse import fuse
from core.train.shelf import find_card, fit_to_base, list_adapters
from core.upload.plan import UploadRequest, plan_upload
from core.upload.target import parse_target
from tests.core.train.runs import config_of, run, sums, write_rows
from tests.lora import LAYERS, make_adapter
from tests.tiny import llama_config, make_model

Q = "model.layers.1.self_attn.q_proj"


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


BROKEN: Mapping[str, tuple[dict[str, Any], str]] = {
    "half": ({f"{Q}.lora_b": None}, f"{Q} has no lora_b"),
    "other half": ({f"{Q}.lora_a": None}, f"{Q} has no lora_a"),
    "unknown": ({f"{Q}.lora_c": floats(2, 2)}, "lora_c, which is not part of lora"),
    "of DoRA": ({f"{Q}.m": floats(64)}, "q_proj.m, which is not part of lora"),
    "weight": ({f"{Q}.weight": floats(64, 64)}, "which is not part of lora"),
    "ranks": ({f"{Q}.lora_b": floats(3, 64)}, "do not make an adapter of rank 4"),
    "axes": ({f"{Q}.lora_b": floats(4, 64, 1)}, "do not make an adapter of rank 4"),
    "integers": ({f"{Q}.lora_b": np.ones((4, 64), np.int32)}, "is I32, not float"),
}
UNNAMED: Mapping[str, Any] = {
    "model.foo.lora_a": floats(64, 4),
    "model.foo.lora_b": floats(4, 64),
}
"""Parts for a layer that the model's files do not name, or name differently."""
WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "shape": ({f"{Q}.lora_b": floats(4, 32)}, "has the shape (32, 64), the layer (64, 64)"),
    "layer": (
        {
            f"model.layers.9.mlp.up_proj.lora_{x}": floats(*s)
            for x, s in zip("ab", ((64, 4), (4, 128)), strict=True)
        },
        "has no linear layer model.layers.9.mlp.up_proj",
    ),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("base") / "tiny")


def told(adapter: Path, model: Path) -> str:
    with pytest.raises(BadModelFiles) as refusal:
        check_adapter(adapter, model=model, model_id="tiny")
    return refusal.value.message


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_not_whole_is_refused(tmp_path: Path, model: Path, kind: str) -> None:
    changes, why = BROKEN[kind]
    assert why in told(make_adapter(tmp_path / "a", changes=changes), model)


@pytest.mark.parametrize("kind", WRONG)
def test_what_does_not_fit_is_refused(tmp_path: Path, model: Path, kind: str) -> None:
    changes, why = WRONG[kind]
    adapter = make_adapter(tmp_path / "a", changes=changes, base="org/other")
    assert why in told(adapter, model)
    assert read_form(adapter).base == "org/other"  # it is sound in itself


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"lora_parameters": None}, "not the configuration of a LoRA adapter"),
        ({"lora_parameters": {"rank": 4, "alpha": 8, "dropout": 0.0}}, "does not say its scale"),
        ({"lora_parameters": {"scale": 4.0, "dropout": 0.0}}, "does not say its rank"),
        ({"lora_parameters": {"rank": 4, "scale": 1.0}}, "does not say its dropout"),
        ({"num_layers": "all"}, "does not say its num_layers"),
        ({"fine_tune_type": "prefix"}, "is prefix, not lora, dora or full"),
    ],
)
def test_what_mlx_lm_needs_must_be_said(
    tmp_path: Path, model: Path, config: dict[str, Any], why: str
) -> None:
    assert why in told(make_adapter(tmp_path / "a", **config), model)


def test_another_base_of_the_same_shape_is_noted(tmp_path: Path, model: Path) -> None:
    for base in (None, "tiny", "org/Tiny@main", str(model)):
        adapter = make_adapter(tmp_path / "a", base=base)
        assert check_adapter(adapter, model=model, model_id="me/tiny") is None
    adapter = make_adapter(tmp_path / "a", base="org/other")
    note = check_adapter(adapter, model=model, model_id="me/tiny")
    assert note == "The adapter was trained on org/other, not on me/tiny."


def test_a_snapshot_is_known_by_its_repository(tmp_path: Path, model: Path) -> None:
    snapshot = tmp_path / "models--org--tiny" / "snapshots" / "0123"
    shutil.copytree(model, snapshot)
    adapter = make_adapter(tmp_path / "a", base="org/tiny")
    assert check_adapter(adapter, model=snapshot, model_id="0123") is None
    adapter = make_adapter(tmp_path / "a", base=str(snapshot))
    assert check_adapter(adapter, model=model, model_id="org/tiny") is None


@pytest.mark.parametrize("bits", [4, 8])
def test_packed_layers_are_compared_unpacked(tmp_path: Path, bits: int) -> None:
    packed = make_model(tmp_path / "packed", bits=bits)
    adapter = make_adapter(tmp_path / "a")
    assert check_adapter(adapter, model=packed, model_id="packed") is None
    wide = make_model(tmp_path / "wide", bits=bits, config=llama_config(hidden_size=96))
    assert "the layer (96, 96)" in told(adapter, wide)


def test_layers_under_other_names_are_left_to_the_loader(tmp_path: Path, model: Path) -> None:
    adapter = make_adapter(tmp_path / "a", layers={"model.layers.0.mlp.other": (64, 64)})
    form = read_form(adapter)
    assert fit_to_files(form, model, model_id="tiny").problem is None
    loaded, _ = load_model(model, lazy=True)
    with pytest.raises(BadModelFiles, match=r"has no linear layer model\.layers\.0\.mlp\.other"):
        core.engine.loader.mount_adapter(loaded, adapter)


def serve(model: Path, adapter: Path, place: Path) -> None:
    settings = Settings(blas="off", adapter=str(adapter))
    plan = prepare_compute(blas="off", dequantize="off", cache=place, environ={})
    ref = ModelRef(model_id="tiny", folder=model)
    start_engine(ref, plan=plan, settings=settings, cache=place, on_note=lambda _note: None)


def train(model: Path, adapter: Path, place: Path) -> None:
    write_rows(place / "data", sums(4))
    where = {"model_dir": str(model), "warm_start_adapter": str(adapter)}
    run(config_of(place, target_modules=["q_proj", "v_proj"], **where), place / "home")


def upload(_model: Path, adapter: Path, place: Path) -> None:
    request = UploadRequest(source=adapter, target=parse_target("me/name", None))
    plan_upload(request, hub_cache=place)


VERBS: Mapping[str, Callable[[Path, Path, Path], object]] = {
    "serve": serve,
    "fuse": lambda model, adapter, place: fuse(model, adapter, place / "fused"),
    "train": train,
    "inspect": lambda _model, adapter, place: find_card(
        str(adapter), Paths.from_environ({"HOME": str(place)})
    ),
    "upload": upload,
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_judges_alike_before_it_loads(
    tmp_path: Path, model: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (core.engine.loader, core.train.model):
        monkeypatch.setattr(module, "load_model", lambda *_a, **_k: pytest.fail("loaded"))
    cases = {**BROKEN, **(WRONG if verb in ("serve", "fuse", "train") else {})}
    for kind, (changes, why) in cases.items():
        adapter = make_adapter(tmp_path / kind, changes=changes)
        with pytest.raises(MlxbunError) as refusal:
            VERBS[verb](model, adapter, tmp_path)
        assert why in refusal.value.message, kind
        assert isinstance(refusal.value, BadModelFiles)


def test_an_adapter_is_compared_with_its_base_where_that_is_on_this_disk(
    tmp_path: Path, model: Path
) -> None:
    paths = Paths.from_environ({"HOME": str(tmp_path)})
    for base, changes, fits in (
        ("tiny", {}, True),
        ("tiny", WRONG["shape"][0], False),
        ("tin", {}, None),
        ("org/elsewhere", {}, None),
        (None, {}, None),
    ):
        adapter = make_adapter(tmp_path / "a", base=base, changes=changes)
        fit = fit_to_base(find_card(str(adapter), paths), paths, [str(model.parent)])
        assert (fit.problem is None if fit else None) == fits


def test_an_upload_is_compared_with_the_base_on_this_disk(tmp_path: Path, model: Path) -> None:
    changes, why = WRONG["shape"]
    adapter = make_adapter(tmp_path / "a", base=str(model), changes=changes)
    with pytest.raises(BadModelFiles) as refusal:
        upload(model, adapter, tmp_path)
    assert why in refusal.value.message
    target = parse_target("me/name", None)
    as_it_is = UploadRequest(source=adapter, target=target, wanted="model")
    assert plan_upload(as_it_is, hub_cache=tmp_path).kind == "adapter"
    upload(model, make_adapter(tmp_path / "b", base=str(model)), tmp_path)


def test_layers_that_the_files_do_not_name_leave_the_fit_open(tmp_path: Path, model: Path) -> None:
    paths = Paths.from_environ({"HOME": str(tmp_path)})
    for changes, complete in (({}, True), (UNNAMED, False)):
        adapter = make_adapter(tmp_path / "a", base="tiny", changes=changes)
        fit = fit_to_base(find_card(str(adapter), paths), paths, [str(model.parent)])
        assert fit == Fit(complete=complete)


def test_a_list_leaves_broken_ones_out_by_name(tmp_path: Path) -> None:
    paths = Paths.from_environ({"HOME": str(tmp_path)})
    kept = paths.cache / "adapters"
    make_adapter(kept / "good")
    make_adapter(kept / "bad", changes={f"{Q}.lora_b": None})
    left_out: list[str] = []
    (card,) = list_adapters(paths, on_broken=left_out.append)
    assert (card.name, card.layers, card.rank) == ("good", len(LAYERS), 4)
    assert "has no lora_b" in left_out[0]
    assert json.loads((card.folder / "adapter_config.json").read_text())["num_layers"] == 2
