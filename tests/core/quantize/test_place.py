"""Names of results, and what else may lie under them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download
from huggingface_hub.utils._validators import validate_repo_id

from core.errors import BadModelFiles, MlxbunError, UsageProblem
from core.gc.locks import holding
from core.gc.own import find_leftovers
from core.gc.plan import make_plan
from core.gc.survey import survey_cache
from core.gc.wishes import Wishes
from core.jobs.stop import Cancelled
from core.quantize.checks import check_quantize
from core.quantize.place import choose_target, suffix
from core.quantize.recipe import make_recipe
from core.registry.cache import own_snapshots, publish_repository, repo_folder
from core.registry.resolve import ModelRef, resolve_model
from tests.caches import add_model, safetensors
from tests.core.quantize.box import Box, contents
from tests.tiny import llama_config, make_model


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path / "box")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "4bit"),
        ({"bits": 8, "group_size": 128}, "8bit-g128"),
        ({"bits": 3, "rotate_weights": True}, "3bit-rot42"),
        ({"target_bpw": 4.25}, "mixed-4.25bpw"),
        ({"target_bpw": 5, "group_size": 32}, "mixed-5bpw-g32"),
        ({"mode": "mxfp4"}, "mxfp4"),
        ({"mode": "nvfp4"}, "nvfp4"),
        ({"mode": "mxfp8"}, "mxfp8"),
        ({"dequantize": True}, "dequantized"),
    ],
)
def test_suffixes(fields: dict[str, object], expected: str) -> None:
    assert suffix(make_recipe(fields)) == expected


@pytest.mark.parametrize(
    ("model_id", "folder", "expected"),
    [
        ("org/name", "models--org--name/snapshots/abc", "org/name-OptiQ-4bit"),
        ("org/name@v2", "models--org--name/snapshots/abc", "org/name-OptiQ-4bit"),
        ("gpt2", "models--gpt2/snapshots/abc", "local/gpt2-OptiQ-4bit"),
        ("mine/name", "folders/mine/name", "local/name-OptiQ-4bit"),
        ("my  model--v1..2", "my  model--v1..2", "local/my-model-v1.2-OptiQ-4bit"),
        ("模型", "模型", "local/model-OptiQ-4bit"),
        ("a" * 63 + "-b", "a" * 63 + "-b", f"local/{'a' * 63}-b-OptiQ-4bit"),
        ("org/x-OptiQ-4bit", "models--o/snapshots/abc", "org/x-OptiQ-4bit-OptiQ-4bit"),
    ],
)
def test_names(model_id: str, folder: str, expected: str, tmp_path: Path) -> None:
    source = ModelRef(model_id=model_id, folder=tmp_path / folder)
    assert choose_target(source, make_recipe({}), hub_cache=tmp_path).repo_id == expected


@pytest.mark.parametrize("stem", ["a" * 96, "a" * 71 + "--b" * 60, "b." * 120])
def test_long_names_stay_names_of_repositories(stem: str, tmp_path: Path) -> None:
    recipe = make_recipe(
        {"target_bpw": 4.123456, "group_size": 128, "rotate_weights": True, "rotation_seed": 2**31}
    )
    cached = Path("models--org--x", "snapshots", "abc")
    for model_id, folder in ((f"org/{stem}", cached), (stem, Path(stem)), (f"{stem}c", Path("c"))):
        source = ModelRef(model_id=model_id, folder=tmp_path / folder)
        found = choose_target(source, recipe, hub_cache=tmp_path).repo_id
        assert found is not None
        if model_id == stem or len(stem) <= 96:
            validate_repo_id(found)
        assert len(found.partition("/")[2]) <= 96


@pytest.mark.parametrize("output", ["/", ".", "..", "a" * 255, "b" * 300, "x/" + "c" * 300, "loop"])
def test_odd_outputs_are_refused_or_used(output: str, box: Box) -> None:
    model = box.model()
    (box.root / "loop").symlink_to("loop")
    recipe = make_recipe({"model_id": str(model), "output": str(box.root / output)})
    look = partial(check_quantize, recipe, settings=box.settings, paths=box.paths)
    if len(output) == 255:
        assert look() is not None
        assert box.quantize(model, output=str(box.root / output)).folder.name == output
    else:
        with pytest.raises(UsageProblem):
            look()


def test_a_repository_of_the_hub_is_never_touched(box: Box) -> None:
    folder = box.model()
    theirs = add_model(box.paths.hub_cache, "local/model-OptiQ-4bit-g32")
    before = contents(theirs)
    with pytest.raises(UsageProblem, match="local/model-OptiQ-4bit-g32 that mlxbun did not make"):
        box.quantize(folder)
    assert contents(theirs) == before
    assert box.quantize(folder, output=str(box.root / "out")).repo_id is None


def test_a_download_of_the_same_name_keeps_both(box: Box) -> None:
    folder = box.model()
    result = box.quantize(folder)
    before = contents(result.folder)
    assert result.repo_id is not None
    hub = box.paths.hub_cache
    elsewhere = box.root / "elsewhere"
    add_model(elsewhere, result.repo_id, commit="f" * 40)
    publish_repository(repo_folder(elsewhere, result.repo_id), hub_cache=hub)
    assert [commit for _, commit, _ in box.listed()] == ["f" * 40]
    assert contents(result.folder) == before
    assert result.commit is not None
    ours = resolve_model(f"{result.repo_id}@{result.commit[:8]}", hub_cache=hub)
    assert ours.folder == result.folder
    with pytest.raises(UsageProblem, match="did not make"):
        box.quantize(folder, override="*.q_proj=8")


def test_another_recipe_is_another_snapshot_and_gc_keeps_both(box: Box) -> None:
    folder = box.model()
    first = box.quantize(folder)
    second = box.quantize(folder, override="*.q_proj=8")
    assert first.repo_id == second.repo_id
    assert first.commit != second.commit
    assert [commit for _, commit, _ in box.listed()] == [second.commit]
    repository = repo_folder(box.paths.hub_cache, str(first.repo_id))
    assert own_snapshots(repository) == {first.commit, second.commit}
    cache = survey_cache(box.paths)
    going = make_plan(cache, Wishes(older_than=0), now=10**10).items
    assert [item for item in going if item.repository is not None] == []
    scanned = scan_cache_dir(box.paths.hub_cache)
    assert not scanned.warnings
    (found,) = scanned.repos
    assert {revision.commit_hash for revision in found.revisions} == own_snapshots(repository)
    main = snapshot_download(
        str(first.repo_id), cache_dir=box.paths.hub_cache, local_files_only=True
    )
    assert Path(main) == second.folder


def test_the_same_again_is_done_already(box: Box) -> None:
    folder = box.model()
    first = box.quantize(folder)
    again = box.quantize(folder)
    assert again.existing
    assert (again.folder, again.bits_per_weight) == (first.folder, first.bits_per_weight)
    assert any("is there already" in note for note in box.notes)


def test_what_an_interrupted_run_leaves_is_garbage_once_it_is_old(box: Box) -> None:
    folder = box.model()
    with pytest.raises(Cancelled):
        box.quantize(folder, should_stop=lambda: True)
    cache = survey_cache(box.paths)
    (left,) = (each for each in cache.leftovers if "quantization" in each.one)
    assert left.one == "unfinished quantization"
    assert [entry.path.parent.name for entry in left.entries] == [".locks"]
    (stage,) = (box.paths.hub_cache / ".locks").iterdir()
    with holding(stage / "lock"):
        assert not [x for x in survey_cache(box.paths).leftovers if "quantization" in x.one]
    assert find_leftovers(None, box.paths) is not None


def test_checks_that_read_headers_alone(box: Box) -> None:
    def check(**fields: object) -> object:
        recipe = make_recipe({"model_id": str(folder), **fields})
        return check_quantize(recipe, settings=box.settings, paths=box.paths)

    folder = make_model(box.root / "odd", config=llama_config(hidden_size=96, intermediate_size=96))
    with pytest.raises(UsageProblem, match="128 divides no layer"):
        check(group_size=128)
    with pytest.raises(UsageProblem, match="is not quantized"):
        check(dequantize=True)
    assert check(group_size=32) is not None
    folder = make_model(box.root / "packed", bits=4)
    with pytest.raises(UsageProblem, match="quantized already"):
        check()
    with pytest.raises(UsageProblem, match="lies in the folder of the model"):
        check(allow_requantize=True, output=str(folder / "x"))
    folder = box.root / "gguf" / "model.gguf"
    folder.parent.mkdir()
    folder.write_bytes(b"GGUF")
    with pytest.raises(BadModelFiles) as caught:
        check()
    assert caught.value.hint == f"Import it first: `mlxbun import {folder}`."
    with pytest.raises(UsageProblem, match="needs a model"):
        check_quantize(make_recipe({}), settings=box.settings, paths=box.paths)


def test_an_architecture_that_mlx_lm_does_not_know(box: Box) -> None:
    folder = box.root / "unknown"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(safetensors({"a.weight": ("F16", (64, 64))}))
    (folder / "config.json").write_text(json.dumps({"model_type": "never_heard_of"}))
    with pytest.raises(BadModelFiles, match=r"cannot be quantized: .*never_heard_of"):
        box.quantize(folder)


def test_code_that_comes_with_a_model_is_not_run(box: Box) -> None:
    folder = box.model(model_file="evil.py")
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    with pytest.raises(BadModelFiles):
        box.quantize(folder)


def test_a_width_that_was_not_chosen_is_not_guessed(box: Box) -> None:
    with pytest.raises(UsageProblem, match="fit"):
        box.quantize(box.model(), bits=None, fit="6GB")
    assert box.listed() == []


def test_calibration_is_looked_at_before_any_work(box: Box) -> None:
    for name, content in (
        ("none.jsonl", None),
        ("empty.jsonl", ""),
        ("short.jsonl", '{"text":"x"}'),
    ):
        file = box.root / name
        file.parent.mkdir(exist_ok=True)
        if content is not None:
            file.write_text(content)
        with pytest.raises(MlxbunError, match=name):
            box.quantize(
                box.model(), bits=None, target_bpw=6, calibration_mix=str(file), group_size=32
            )
