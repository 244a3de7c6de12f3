"""Cards are right the first time and the second, and change when anything on the disk does."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import StoreCorrupt
from core.paths import Paths
from core.registry import library as module
from core.registry.architectures import Architectures
from core.registry.facts import Facts, read_facts, read_place
from core.registry.index import load_index
from core.registry.library import ModelCard, disk_bytes, library, model_names, usable_models
from core.registry.places import Place
from core.registry.storage import Quantization
from core.registry.support import judge
from core.registry.survey import Survey
from core.settings import Settings
from tests.caches import WORDS, Tensors, add_model, safetensors, write_sparse

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 8192,
    "quantization": {"group_size": 32, "bits": 4},
    **WORDS,
}
TENSORS: Tensors = {
    "model.a.weight": ("U32", (64, 16)),
    "model.a.scales": ("F16", (64, 4)),
    "model.a.biases": ("F16", (64, 4)),
    "model.norm.weight": ("F16", (64,)),
}
TEMPLATE = "{% if tools %}{{ tools }}{% endif %}{% if enable_thinking %}<think>{% endif %}"
FILES = {
    "model.safetensors": safetensors(TENSORS),
    "tokenizer_config.json": json.dumps({"chat_template": TEMPLATE}).encode(),
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(home=tmp_path / "home", cache=tmp_path / "cache", hub_cache=tmp_path / "hub")


@pytest.fixture(autouse=True)
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a minute go by: what was written just now is not kept."""
    settled = Survey.settled
    monkeypatch.setattr(Survey, "settled", lambda seen: settled(seen, time.time() + 60))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the models whose files were opened."""
    seen: list[str] = []

    def read(place: Place) -> Facts:
        seen.append(place.name)
        return read_place(place)

    monkeypatch.setattr(module, "read_place", read)
    return seen


def _add(paths: Paths, name: str = "org/one", **changes: Any) -> Path:
    config = json.dumps(CONFIG | changes.pop("config", {})).encode()
    files = {**FILES, **changes.pop("files", {})}
    return add_model(paths.hub_cache, name, config=config, weights=files, **changes)


def _plain(paths: Paths, name: str, **config: Any) -> Path:
    folder = paths.home / "models" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    for file, data in FILES.items():
        (folder / file).write_bytes(data)
    return folder


def _settings(paths: Paths) -> Settings:
    return Settings(model_folders=(str(paths.home / "models"),))


def _library(paths: Paths, **more: Any) -> dict[str, ModelCard]:
    return {card.name: card for card in library(paths, _settings(paths), **more)}


def test_a_card(paths: Paths) -> None:
    folder = _add(paths)
    card = _library(paths)["org/one"]
    size = len(json.dumps(CONFIG)) + sum(map(len, FILES.values()))
    assert card == ModelCard(
        name="org/one",
        folder=folder,
        in_cache=True,
        commit=folder.name,
        refs=("main",),
        model_type="llama",
        architectures=("LlamaForCausalLM",),
        parameters=64 * 128 + 64,
        quantization=Quantization(bits=4, group_size=32, mode="affine", widths=(4,)),
        dtype="fp16",
        weights_bytes=64 * 16 * 4 + 2 * 64 * 4 * 2 + 64 * 2,
        size_bytes=size,
        modified=card.modified,
        context=8192,
        vision=False,
        audio=False,
        chat=True,
        tools=True,
        thinking=True,
        problem=None,
        supported=True,
        reason=None,
        note=None,
        blobs={},
    )
    assert card.modified == pytest.approx(time.time(), abs=600)
    assert sum(card.blobs.values()) == size


def test_the_second_look_opens_nothing(paths: Paths, opened: list[str]) -> None:
    _add(paths)
    _add(paths, "org/bad", files={"model.safetensors": b"cut"})
    _plain(paths, "mine")
    first = library(paths, _settings(paths))
    assert sorted(opened) == ["mine", "org/bad", "org/one"]
    opened.clear()
    assert library(paths, _settings(paths)) == first
    assert opened == []


def test_fifty_gigabytes_are_listed_by_their_header(paths: Paths) -> None:
    folder = _add(paths, config={"quantization": None})
    blob = (folder / "model.safetensors").resolve()
    write_sparse(blob, {"a.weight": ("BF16", (5_000_000, 5000))})
    card = _library(paths)["org/one"]
    assert card.parameters == 25 * 10**9
    assert card.size_bytes > 50 * 10**9
    assert card.supported


# What changes on the disk


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights are cut": (
        lambda f: os.truncate((f / "model.safetensors").resolve(), 100),
        "model.safetensors is broken",
    ),
    "a blob is deleted": (
        lambda f: (f / "model.safetensors").resolve().unlink(),
        "points to a file that is gone",
    ),
    "the config is damaged": (
        lambda f: (f / "config.json").resolve().write_text("{"),
        "config.json is not a JSON object",
    ),
    "a shard is promised": (
        lambda f: (f / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}})
        ),
        "model-00001-of-00002.safetensors is missing",
    ),
    "main goes on to a snapshot under way": (
        lambda f: (f.parents[1] / "refs" / "main").write_text("e" * 40),
        "is not there",
    ),
    "the snapshot is deleted": (shutil.rmtree, "is not there"),
}


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_noticed(paths: Paths, change: Callable[[Path], object], words: str) -> None:
    folder = _add(paths)
    assert _library(paths)["org/one"].supported
    time.sleep(0.02)  # a tick of the file system's clock
    change(folder)
    card = _library(paths)["org/one"]
    assert not card.supported
    assert words in str(card.reason)
    assert card.problem == card.reason


def test_a_deleted_repository_leaves_the_library_and_the_index(paths: Paths) -> None:
    folder = _add(paths)
    _add(paths, "org/two")
    assert len(library(paths, Settings())) == 2
    shutil.rmtree(folder.parents[1])
    assert [card.name for card in library(paths, Settings())] == ["org/two"]
    assert str(folder) not in load_index(paths.library_file).folders


def test_a_download_that_goes_on_is_noticed(paths: Paths) -> None:
    folder = _add(paths)
    weights = (folder / "model.safetensors").readlink()
    (folder / "model.safetensors").unlink()
    assert _library(paths)["org/one"].reason == "it has no safetensors weights"
    (folder / "model.safetensors").symlink_to(weights)
    assert _library(paths)["org/one"].supported


def test_a_download_that_is_not_finished_is_told(paths: Paths) -> None:
    folder = _add(paths)
    (folder / "model.safetensors").unlink()
    partial = folder.parents[1] / "blobs" / "hash.mlxbun.incomplete"
    partial.write_bytes(b"half")
    told = "it has no safetensors weights; its download is not finished"
    assert _library(paths)["org/one"].reason == told
    assert _library(paths)["org/one"].problem == told
    partial.unlink()
    assert _library(paths)["org/one"].reason == "it has no safetensors weights"
    (paths.hub_cache / "models--org--new" / "blobs").mkdir(parents=True)
    (paths.hub_cache / "models--org--new" / "blobs" / "hash.incomplete").write_bytes(b"half")
    told = "it has no snapshot; its download is not finished"
    assert _library(paths)["org/new"].reason == told


def test_a_config_that_is_replaced_in_a_plain_folder_is_noticed(paths: Paths) -> None:
    folder = _plain(paths, "mine")
    assert _library(paths)["mine"].context == 8192
    time.sleep(0.02)
    before = (folder / "config.json").stat()
    other = json.dumps(CONFIG | {"max_position_embeddings": 4096})
    (folder / "new").write_text(other)
    os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "new").replace(folder / "config.json")
    assert (folder / "config.json").stat().st_size == before.st_size
    assert _library(paths)["mine"].context == 4096


def test_what_was_written_a_moment_ago_is_read_again(
    paths: Paths, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Survey, "settled", lambda _seen: False)
    _add(paths)
    _library(paths)
    _library(paths)
    assert opened == ["org/one", "org/one"]


def test_an_upgrade_of_mlx_lm_counts_at_once(
    paths: Paths, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(paths, config={"model_type": "brand_new"})
    reason = _library(paths)["org/one"].reason
    assert reason is not None
    assert reason.endswith("does not load the type brand_new")
    package = tmp_path / "mlx_lm"
    (package / "models").mkdir(parents=True)
    (package / "models" / "brand_new.py").write_text("class Model: pass")
    monkeypatch.setattr(module, "find_mlx_lm", lambda: package)
    assert _library(paths)["org/one"].supported
    monkeypatch.setattr(module, "find_mlx_lm", lambda: None)
    assert _library(paths)["org/one"].reason == "mlx-lm is not installed"
    assert opened == ["org/one"]


# The index


@pytest.mark.parametrize("damage", [b"", b"garbage" * 1000, None])
def test_a_damaged_index_is_made_anew(
    paths: Paths, damage: bytes | None, opened: list[str]
) -> None:
    _add(paths)
    first = _library(paths)
    paths.library_file.write_bytes(
        paths.library_file.read_bytes()[:3000] if damage is None else damage
    )
    assert _library(paths) == first
    assert _library(paths) == first
    assert opened == ["org/one", "org/one"]


@pytest.mark.parametrize("facts", ["null", "{}", "[1]", "{", '{"storage": 3}', '"\\udcff"'])
def test_an_entry_of_another_kind_is_as_good_as_none(paths: Paths, facts: str) -> None:
    import sqlite3
    from contextlib import closing

    _add(paths)
    first = _library(paths)
    with closing(sqlite3.connect(paths.library_file)) as connection, connection:
        connection.execute("UPDATE folder SET facts = ?", (facts,))
        connection.execute("UPDATE aside SET content = ?", (facts,))
    assert _library(paths) == first
    assert model_names(paths) == ["org/one"]


def test_without_a_place_for_the_index(paths: Paths) -> None:
    paths.cache.write_text("")
    _add(paths)
    assert _library(paths)["org/one"].supported
    assert model_names(paths) == ["org/one"]


# Revisions and sizes


def test_every_revision_has_a_card_and_shared_files_count_once(paths: Paths) -> None:
    old = _add(paths, commit="a" * 40, ref="v1", config={"a": 1})
    new = _add(paths, commit="b" * 40)
    (card,) = library(paths, Settings())
    assert card.commit == "b" * 40
    cards = library(paths, Settings(), all_revisions=True)
    assert [(c.name, c.folder, c.refs) for c in cards] == [
        ("org/one", new, ("main",)),
        ("org/one", old, ("v1",)),
    ]
    shared = sum(map(len, FILES.values()))
    assert disk_bytes(cards) == sum(c.size_bytes for c in cards) - shared


# Names for completion


def test_names_come_from_the_index(paths: Paths, opened: list[str]) -> None:
    _add(paths, "org/llama")
    _add(paths, "org/qwen")
    _add(paths, "org/whisper", config={"model_type": "whisper"})
    _add(paths, "org/bad", files={"model.safetensors": b""})
    _plain(paths, "mine")
    folders = _settings(paths).model_folders
    _library(paths)
    opened.clear()
    assert model_names(paths, model_folders=folders) == ["mine", "org/llama", "org/qwen"]
    assert model_names(paths, "org/l") == ["org/llama"]
    assert model_names(paths, "QW") == ["org/qwen"]
    assert model_names(paths, "none") == []
    assert opened == []


def test_names_are_fresh_where_models_come_go_and_are_mended(paths: Paths) -> None:
    assert model_names(paths) == []
    folder = _add(paths, "org/one", files={"model.safetensors": b""})
    assert model_names(paths) == []
    time.sleep(0.02)
    (folder / "model.safetensors").resolve().write_bytes(FILES["model.safetensors"])
    assert model_names(paths) == ["org/one"]
    _add(paths, "org/two")
    assert model_names(paths) == ["org/one", "org/two"]
    shutil.rmtree(folder.parents[1])
    assert model_names(paths) == ["org/two"]


def test_names_of_a_cache_that_cannot_be_read(paths: Paths) -> None:
    paths.hub_cache.write_text("")
    assert model_names(paths) == []
    assert usable_models(paths, Settings()) == {}
    with pytest.raises(StoreCorrupt):
        library(paths, Settings())


def test_usable_models_and_whether_they_see(paths: Paths) -> None:
    _add(paths)
    _add(
        paths,
        "org/sees",
        config={"model_type": "gemma3", "vision_config": {"a": 1}, "text_config": {}},
    )
    _add(paths, "org/bert", config={"model_type": "bert"})
    assert usable_models(paths, Settings()) == {"org/one": False, "org/sees": True}


# Whatever a folder holds


def test_hostile_folders_are_told_and_do_not_hang(paths: Paths) -> None:
    for name in ("dir", "pipe", "loop", "huge"):
        folder = _plain(paths, name)
        (folder / "config.json").unlink()
        if name == "dir":
            (folder / "config.json").mkdir()
        elif name == "pipe":
            os.mkfifo(folder / "config.json")
            (folder / "model.safetensors").unlink()
            os.mkfifo(folder / "model.safetensors")
        elif name == "loop":
            (folder / "config.json").symlink_to("config.json")
        else:
            with (folder / "config.json").open("wb") as sparse:
                sparse.truncate(10**11)
    template = _plain(paths, "template")
    os.mkfifo(template / "chat_template.jinja")
    odd = _plain(paths, os.fsdecode(b"odd\xff\x1b[2J\n"))
    (odd / os.fsdecode(b"\xfe\n")).write_text("")
    cards = _library(paths)
    assert cards["dir"].problem == "config.json cannot be read (it is a folder)"
    assert cards["pipe"].problem == "model.safetensors is no regular file"
    assert "symbolic links" in str(cards["loop"].problem)
    assert "more than" in str(cards["huge"].problem)
    assert cards["template"].supported
    assert not cards["template"].chat
    assert cards[odd.name].supported
    assert _library(paths) == cards


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    ["model_type", "architectures", "quantization", "quantization_config", "text_config",
     "vision_config", "max_position_embeddings", "torch_dtype", "model_file", "bits",
     "group_size", "mode", "quant_method", "format"]
)  # fmt: skip
_WORDS = st.sampled_from(["llama", "bert", "gptq", "awq", "fp8", "LlamaModel", "affine", 4, 64])
_CONFIGS = st.dictionaries(_KEYS, _WORDS | st.dictionaries(_KEYS, _WORDS | _JSON) | _JSON)


@given(config=_CONFIGS | _JSON, tokenizer=_JSON)
def test_any_config_makes_a_card_that_is_kept(
    config: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": tokenizer}))
    (folder / "model.safetensors").write_bytes(FILES["model.safetensors"])
    read = read_facts(folder)
    assert Facts.from_plain(json.loads(json.dumps(read.to_plain()))) == read
    assert judge(read, Architectures()).reason
