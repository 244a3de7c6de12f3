"""What lies at a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import BadModelFiles, NotFound
from core.upload.kinds import Kind, detect_kind, repo_type_of
from core.upload.target import RepoType
from tests.core.upload.conftest import MODEL, adapter_files, fill
from tests.fakehub import weights


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (MODEL, "model"),
        (adapter_files(), "adapter"),
        ({"train.jsonl": b"{}\n"}, "dataset"),
        ({"data/train-00000.parquet": b"x", "notes.txt": b"x"}, "dataset"),
        ({"a/b/rows.CSV": b"a\n1\n"}, "dataset"),
        ({**MODEL, "train.jsonl": b"{}\n"}, "model"),
        ({**adapter_files(), "train.jsonl": b"{}\n"}, "adapter"),
        ({**MODEL, **adapter_files()}, "model"),
        ({"config.json": b"{}", **adapter_files()}, "adapter"),
    ],
)
def test_kinds(files: dict[str, bytes], kind: str, tmp_path: Path) -> None:
    assert detect_kind(fill(tmp_path, files)) == kind


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet", "ROWS.JSONL"])
def test_files_of_data(name: str, tmp_path: Path) -> None:
    assert detect_kind(fill(tmp_path, {name: b"{}\n"}) / name) == "dataset"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "is empty"),
        ({"a.txt": b"x"}, "holds neither a model"),
        ({"weights.gguf": b"x", "config.json": b"{}"}, "its weights are GGUF files"),
        ({"model.safetensors": weights(10)}, "config.json is missing"),
        ({"config.json": b"{}", "other.safetensors": b"x"}, "not named model*.safetensors"),
        ({"config.json": b"[", "model.safetensors": weights(10)}, "is not a JSON object"),
        (
            {"config.json": b"{}", "model-00001-of-00002.safetensors": weights(10)},
            "model-00002-of-00002.safetensors is missing",
        ),
        ({"adapter_config.json": b"{}"}, "without adapters.safetensors"),
        ({"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"}, "in PEFT's form"),
        ({".hidden/x.jsonl": b"{}", "a.txt": b""}, "holds neither"),
    ],
)
def test_what_is_nothing_that_we_know(files: dict[str, bytes], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadModelFiles) as caught:
        detect_kind(fill(tmp_path, files))
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_single_file_of_something_else(tmp_path: Path) -> None:
    file = fill(tmp_path, {"model.safetensors": weights(10)}) / "model.safetensors"
    with pytest.raises(BadModelFiles, match="uploaded as data only"):
        detect_kind(file)


def test_nothing_at_all(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        detect_kind(tmp_path / "nothing")
    (tmp_path / "link").symlink_to("gone")
    with pytest.raises(NotFound, match="points to a file that is gone"):
        detect_kind(tmp_path / "link")


@pytest.mark.parametrize(
    ("files", "wanted", "kind"),
    [
        (MODEL, "dataset", "dataset"),
        (MODEL, "model", "model"),
        (adapter_files(), "model", "adapter"),
        ({"train.jsonl": b"{}\n"}, "model", "files"),
        ({"weights.gguf": b"x"}, "model", "files"),
        ({"a.txt": b"x"}, "dataset", "dataset"),
    ],
)
def test_a_type_that_is_named(
    files: dict[str, bytes], wanted: RepoType, kind: Kind, tmp_path: Path
) -> None:
    found = detect_kind(fill(tmp_path, files), wanted)
    assert (found, repo_type_of(found, wanted)) == (kind, wanted)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    folder = fill(tmp_path / "x", MODEL)
    folder.chmod(0)
    try:
        with pytest.raises(BadModelFiles, match="cannot be read"):
            detect_kind(folder)
    finally:
        folder.chmod(0o700)
