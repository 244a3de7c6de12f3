"""A name leads to exactly one model, or to an error that helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import Ambiguous, BadModelFiles, NotFound, StoreCorrupt, UsageProblem
from core.registry.resolve import default_model, find_starter, is_model_name, resolve_model
from core.registry.starter import STARTER_IDS, WHEEL_STARTER
from tests.caches import WORDS, add_model, safetensors


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


def _local(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **WORDS}))
    (folder / "model.safetensors").write_bytes(safetensors())
    return folder


@pytest.mark.parametrize("name", ["org/Llama-One", "llama", "LLAMA-ONE", "rg/ll"])
def test_a_repo_id_or_a_part_of_one_in_any_case(name: str, cache: Path) -> None:
    folder = add_model(cache, "org/Llama-One")
    add_model(cache, "org/other")
    found = resolve_model(name, hub_cache=cache)
    assert (found.model_id, found.folder) == ("org/Llama-One", folder)


@pytest.mark.parametrize(
    "name", ["https://huggingface.co/org/model", "org/model/", "hf.co/org/model"]
)
def test_an_address_on_the_hub_is_a_name(name: str, cache: Path) -> None:
    folder = add_model(cache, "org/model")
    assert resolve_model(name, hub_cache=cache).folder == folder
    assert is_model_name(name, hub_cache=cache)


def test_an_exact_repo_id_wins_over_longer_ones(cache: Path) -> None:
    add_model(cache, "org/model-b")
    folder = add_model(cache, "org/model")
    assert resolve_model("org/model", hub_cache=cache).folder == folder


def test_several_are_listed_and_refused(cache: Path) -> None:
    for name in ("org/model-b", "org/model-a", "org/else"):
        add_model(cache, name)
    with pytest.raises(Ambiguous) as caught:
        resolve_model("MODEL", hub_cache=cache)
    assert caught.value.candidates == ("org/model-a", "org/model-b")
    assert "org/model-a" in caught.value.message


@pytest.mark.parametrize("name", ["org/Lama-3.2-1B", "lamma-3.2-1b", "Llama3.2-1B"])
def test_none_gives_near_misses(name: str, cache: Path) -> None:
    add_model(cache, "org/Llama-3.2-1B")
    add_model(cache, "org/Qwen")
    with pytest.raises(NotFound) as caught:
        resolve_model(name, hub_cache=cache)
    assert caught.value.hint == "Did you mean org/Llama-3.2-1B?"


def test_none_and_nothing_near(cache: Path) -> None:
    with pytest.raises(NotFound) as caught:
        resolve_model("anything", hub_cache=cache)
    assert "mlxbun download starter" in str(caught.value.hint)


def test_a_repo_id_that_is_not_here_may_be_downloaded(cache: Path) -> None:
    with pytest.raises(NotFound) as caught:
        resolve_model("Zzz/Xyz-0.6B", hub_cache=cache)
    assert caught.value.hint is not None
    assert "`mlxbun download Zzz/Xyz-0.6B`" in caught.value.hint


def test_incomplete_ones_do_not_count_among_several(cache: Path) -> None:
    folder = add_model(cache, "org/model-a")
    add_model(cache, "org/model-b", config=b"nothing")
    assert resolve_model("model", hub_cache=cache).folder == folder


@pytest.mark.parametrize("name", ["org/model-b", "model-b"])
def test_an_incomplete_one_is_refused_by_its_file(name: str, cache: Path) -> None:
    folder = add_model(cache, "org/model-b")
    (folder / "model.safetensors").resolve().unlink()
    with pytest.raises(BadModelFiles, match=r"model\.safetensors points to a file that is gone"):
        resolve_model(name, hub_cache=cache)


def test_a_folder(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _local(tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (str(folder), "models/mine", "./models/mine", "~/models/mine"):
        found = resolve_model(name, hub_cache=cache)
        assert (found.model_id, found.folder) == ("mine", folder.resolve())


def test_a_repo_id_wins_over_a_folder_of_its_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = _local(tmp_path / "org" / "model")
    folder = add_model(cache, "org/model")
    monkeypatch.chdir(tmp_path)
    assert resolve_model("org/model", hub_cache=cache).folder == folder
    assert resolve_model("./org/model", hub_cache=cache).folder == local.resolve()


def test_a_folder_that_is_no_model_does_not_hide_one(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "llama").mkdir()
    folder = add_model(cache, "org/llama")
    monkeypatch.chdir(tmp_path)
    assert resolve_model("llama", hub_cache=cache).folder == folder


def test_folders_that_are_no_models(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.gguf").write_text("")
    with pytest.raises(BadModelFiles, match=r"config\.json is missing"):
        resolve_model(str(tmp_path / "empty"), hub_cache=cache)
    with pytest.raises(BadModelFiles, match="is a GGUF file") as caught:
        resolve_model(str(tmp_path / "file.gguf"), hub_cache=cache)
    assert f"`mlxbun import {tmp_path / 'file.gguf'}`" in str(caught.value.hint)
    (tmp_path / "file.txt").write_text("")
    with pytest.raises(BadModelFiles, match="is a file"):
        resolve_model(str(tmp_path / "file.txt"), hub_cache=cache)
    with pytest.raises(NotFound, match="no folder"):
        resolve_model(str(tmp_path / "none"), hub_cache=cache)


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_no_name(name: str, cache: Path) -> None:
    add_model(cache, "org/model")
    with pytest.raises(UsageProblem):
        resolve_model(name, hub_cache=cache)


def test_a_cache_that_cannot_be_read(cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(StoreCorrupt):
        resolve_model("model", hub_cache=cache)
    with pytest.raises(StoreCorrupt):
        default_model(hub_cache=cache)


def test_the_default_is_the_only_usable_one(cache: Path) -> None:
    assert default_model(hub_cache=cache) is None
    add_model(cache, "org/broken", config=b"no")
    assert default_model(hub_cache=cache) is None
    folder = add_model(cache, "org/model")
    found = default_model(hub_cache=cache)
    assert found is not None
    assert found.folder == folder


def test_of_several_the_starter_is_the_default(cache: Path) -> None:
    add_model(cache, "a/model")
    add_model(cache, "z/model")
    with pytest.raises(UsageProblem) as caught:
        default_model(hub_cache=cache)
    assert "a/model, z/model" in caught.value.message
    assert find_starter(hub_cache=cache) is None
    folder = add_model(cache, WHEEL_STARTER.repo_id)
    found = default_model(hub_cache=cache)
    assert found is not None
    assert found.folder == folder
    assert find_starter(hub_cache=cache) == found


def test_the_better_of_two_starters_is_the_default(cache: Path) -> None:
    for name in STARTER_IDS:
        add_model(cache, name)
    found = default_model(hub_cache=cache)
    assert found is not None
    assert found.model_id == STARTER_IDS[0]


def _revisions(cache: Path) -> tuple[Path, Path]:
    """Add a repository with two snapshots; return the one of `main` and the other."""
    old = add_model(cache, "org/model", commit="abcdef0" + "1" * 33, ref="refs/pr/1")
    return add_model(cache, "org/model", commit="abcdef0" + "2" * 33), old


@pytest.mark.parametrize("revision", ["refs/pr/1", "abcdef0" + "1" * 33, "abcdef01", "abcdef0111"])
@pytest.mark.parametrize("name", ["org/model", "mod"])
def test_a_revision_names_another_snapshot(cache: Path, name: str, revision: str) -> None:
    _, old = _revisions(cache)
    found = resolve_model(f"{name}@{revision}", hub_cache=cache)
    assert (found.model_id, found.folder) == (f"org/model@{revision}", old)
    assert resolve_model(found.model_id, hub_cache=cache) == found


@pytest.mark.parametrize("revision", ["main", "abcdef02"])
def test_a_revision_that_is_main_is_the_model_itself(cache: Path, revision: str) -> None:
    main, _ = _revisions(cache)
    found = resolve_model(f"org/model@{revision}", hub_cache=cache)
    assert (found.model_id, found.folder) == ("org/model", main)


@pytest.mark.parametrize("revision", ["", "abcdef", "ABCDEF01", "1234567", "v2", "..", "main/.."])
def test_a_revision_that_is_not_here(cache: Path, revision: str) -> None:
    _revisions(cache)
    with pytest.raises(NotFound, match="org/model has no revision") as caught:
        resolve_model(f"org/model@{revision}", hub_cache=cache)
    assert caught.value.hint == "There are main, refs/pr/1."


def test_the_beginning_of_several_commits(cache: Path) -> None:
    _revisions(cache)
    with pytest.raises(Ambiguous) as caught:
        resolve_model("org/model@abcdef0", hub_cache=cache)
    assert len(caught.value.candidates) == 2


def test_a_revision_that_is_incomplete(cache: Path) -> None:
    _, old = _revisions(cache)
    (old / "config.json").unlink()
    with pytest.raises(BadModelFiles, match=r"config\.json is missing"):
        resolve_model("org/model@refs/pr/1", hub_cache=cache)


@pytest.mark.parametrize("name", ["org/none@main", "@main", "@"])
def test_a_revision_of_nothing(cache: Path, name: str) -> None:
    _revisions(cache)
    with pytest.raises(NotFound, match="There is no model"):
        resolve_model(name, hub_cache=cache)


def test_a_folder_whose_name_holds_an_at_sign(cache: Path, tmp_path: Path) -> None:
    folder = _local(tmp_path / "my@model")
    assert resolve_model(str(folder), hub_cache=cache).folder == folder.resolve()


def test_models_in_folders_of_models(cache: Path, tmp_path: Path) -> None:
    folders = [str(tmp_path / "models")]
    mine = _local(tmp_path / "models" / "mine")
    theirs = _local(tmp_path / "models" / "org" / "theirs")
    for name, folder in (("mine", mine), ("org/theirs", theirs), ("THEIR", theirs)):
        found = resolve_model(name, hub_cache=cache, model_folders=folders)
        assert found.folder == folder
    assert found.model_id == "org/theirs"
    with pytest.raises(NotFound):
        resolve_model("mine", hub_cache=cache)
    with pytest.raises(UsageProblem, match="mine, org/theirs"):
        default_model(hub_cache=cache, model_folders=folders)


def test_the_cache_wins_over_a_folder_of_models(cache: Path, tmp_path: Path) -> None:
    folders = [str(tmp_path / "models")]
    mine = _local(tmp_path / "models" / "org" / "model")
    folder = add_model(cache, "org/model")
    assert resolve_model("org/model", hub_cache=cache, model_folders=folders).folder == folder
    found = resolve_model(str(mine), hub_cache=cache, model_folders=folders)
    assert found.folder == mine


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("starter", True),
        ("org/model", True),
        ("org/model@main", True),
        ("mine", True),
        ("org/mod", False),
        ("me@org/model", False),
        ("\0", False),
        ("x" * 5000, False),
    ],
)
def test_whole_names(cache: Path, tmp_path: Path, name: str, is_one: bool) -> None:
    add_model(cache, "org/model")
    _local(tmp_path / "models" / "mine")
    folders = [str(tmp_path / "models")]
    assert is_model_name(name, hub_cache=cache, model_folders=folders) == is_one


def test_truncated_weights_are_not_used(cache: Path) -> None:
    add_model(cache, "org/whole")
    bad = add_model(cache, "org/cut", weights={"model.safetensors": safetensors(padding=9)[:-1]})
    with pytest.raises(BadModelFiles, match=r"model\.safetensors is broken: it has"):
        resolve_model("org/cut", hub_cache=cache)
    with pytest.raises(BadModelFiles, match=r"model\.safetensors is broken: it has"):
        resolve_model(str(bad), hub_cache=cache)
    found = default_model(hub_cache=cache)
    assert found is not None
    assert found.model_id == "org/whole"


def test_no_download_is_advised_for_what_none_can_mend(cache: Path) -> None:
    add_model(cache, "a/b").parents[1].rename(cache / "models--..--etc")
    with pytest.raises(BadModelFiles, match="no repo id") as caught:
        resolve_model("../etc", hub_cache=cache)
    assert "mlxbun download" not in (caught.value.hint or "")


def test_a_model_of_another_kind_is_no_default(cache: Path) -> None:
    add_model(cache, "org/embeds", config=b'{"model_type": "bert"}')
    assert default_model(hub_cache=cache) is None
    add_model(cache, "org/model")
    found = default_model(hub_cache=cache)
    assert found is not None
    assert found.model_id == "org/model"
    # Who asks for it by its name gets it, and hears from the loader what is wrong with it.
    assert resolve_model("embeds", hub_cache=cache).model_id == "org/embeds"


def test_names_from_the_disk_cannot_move_the_cursor(cache: Path) -> None:
    add_model(cache, "a/b").parents[1].rename(cache / "models--a--b\x1b[2J")
    with pytest.raises(BadModelFiles) as refused:
        resolve_model("b", hub_cache=cache)
    assert refused.value.message.isprintable()
    with pytest.raises(NotFound) as missed:
        resolve_model("\x1b[2Jzzz", hub_cache=cache)
    assert missed.value.message.isprintable()
