"""The files of a folder, and what is found wrong with them before the first byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.errors import BadModelFiles, MlxbunError, NotFound
from core.upload.belongs import Selection
from core.upload.checks import LARGEST_FILE, MOST_IN_FOLDER, check_files
from core.upload.gather import Gathered, LocalFile, changed_files, gather
from tests.caches import add_model
from tests.core.upload.conftest import MODEL, fill
from tests.fakehub import weights

USUAL = Selection()


def _refused(folder: Path, kind: type[MlxbunError] = BadModelFiles) -> str:
    with pytest.raises(kind) as caught:
        check_files(gather(folder, "model", USUAL).files)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value.message


def _names(found: Gathered) -> list[str]:
    return [file.name for file in found.files]


def test_files_and_what_is_left_out(tmp_path: Path) -> None:
    folder = fill(
        tmp_path,
        {**MODEL, ".DS_Store": b"x", ".git/config": b"x", "sub/a.json": b"{}", "x.tmp": b"123",
         "checkpoint-5/model.safetensors": b"x"},
    )  # fmt: skip
    found = gather(folder, "model", USUAL)
    assert _names(found) == ["config.json", "model.safetensors", "sub/a.json", "tokenizer.json"]
    assert [(one.name, one.size) for one in found.skipped] == [
        (".DS_Store", 1), (".git/", None), ("checkpoint-5/", None), ("x.tmp", 3),
    ]  # fmt: skip
    check_files(found.files)
    opened = gather(folder, "model", Selection(include=("checkpoint-5/*",)))
    assert "checkpoint-5/model.safetensors" in _names(opened)


def test_a_snapshot_is_followed_to_its_blobs(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "org/name", config=MODEL["config.json"])
    found = gather(folder, "model", USUAL)
    assert _names(found) == ["config.json", "model.safetensors"]
    assert found.files[0].size == len(MODEL["config.json"])
    check_files(found.files)


def test_links_to_folders_and_circles(tmp_path: Path) -> None:
    folder = fill(tmp_path / "model", MODEL)
    (folder / "again").symlink_to(folder)
    found = gather(folder, "model", USUAL)
    assert [(one.name, one.reason) for one in found.skipped] == [("again/", "a link to a folder")]


def test_broken_links(tmp_path: Path) -> None:
    folder = fill(tmp_path, MODEL)
    (folder / "junk.tmp").symlink_to("gone")
    assert len(gather(folder, "model", USUAL).files) == 3  # a link that is left out is nobody's
    (folder / "extra.json").symlink_to("gone")
    assert "is a link to a file that is gone" in _refused(folder)
    (folder / "extra.json").unlink()
    (folder / "extra.json").symlink_to("extra.json")
    assert "is a link" in _refused(folder)


def test_what_is_no_file(tmp_path: Path) -> None:
    folder = fill(tmp_path, MODEL)
    os.mkfifo(folder / "pipe.json")
    assert "is no regular file" in _refused(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    folder = fill(tmp_path, MODEL)
    (folder / "config.json").chmod(0)
    assert "config.json cannot be read: Permission denied" in _refused(folder)


def test_weights_that_are_cut(tmp_path: Path) -> None:
    folder = fill(tmp_path, MODEL)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    said = _refused(folder)
    assert said.startswith("model.safetensors is broken: it has ")


def test_a_git_lfs_pointer_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = fill(tmp_path, MODEL)
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    (folder / "model.safetensors").write_bytes(pointer)
    with pytest.raises(BadModelFiles, match="Git LFS pointer") as refusal:
        check_files(gather(folder, "model", USUAL).files)
    assert "git lfs pull" in (refusal.value.hint or "")


@pytest.mark.parametrize(("one", "other"), [("a.json", "A.json"), ("\u00fc.json", "u\u0308.json")])
def test_names_that_differ_in_case_or_spelling_only(one: str, other: str, tmp_path: Path) -> None:
    fill(tmp_path, {**MODEL, one: b"{}", other: b"{}"})
    if len(list(tmp_path.iterdir())) != len(MODEL) + 2:
        pytest.skip("this disk knows no case")
    assert "differ in case" in _refused(tmp_path)


@pytest.mark.parametrize("name", ["a\nb.json", "a\x1b[31m.json", "a\\b.json", " a.json"])
def test_names_that_do_not_travel(name: str, tmp_path: Path) -> None:
    said = _refused(fill(tmp_path, {**MODEL, name: b"{}"}))
    assert "cannot be used everywhere" in said
    assert said.isprintable()


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    fill(tmp_path, MODEL)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json")).write_bytes(b"{}")
    assert "cannot be used everywhere" in _refused(tmp_path)


def test_more_than_the_hub_takes(tmp_path: Path) -> None:
    file = tmp_path / "big.json"
    with file.open("wb") as opened:
        opened.truncate(LARGEST_FILE + 1)
    with pytest.raises(BadModelFiles, match="has 500 GB, and the Hub takes 500 GB"):
        check_files(gather(file, "dataset", USUAL).files)
    many = [
        LocalFile(name=f"x/{n}.json", path=file, size=1, stamp=(0, 0, 0, 0))
        for n in range(MOST_IN_FOLDER + 1)
    ]
    with pytest.raises(BadModelFiles, match="The folder x holds 10001 files"):
        check_files(many)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b"", "it is empty"),
        ("a.csv", b"", "it is empty"),
        ("a.jsonl", b"not json\n", "its first line is not JSON"),
        ("a.jsonl", b'{"a": 1}\n{"a": 2', "its last line is not JSON"),
        ("a.jsonl", b"[" * 100_000 + b"\n{}\n", "its first line is not JSON"),
        ("a.parquet", b"PAR1" + bytes(50), "no whole Parquet file"),
        ("a.parquet", b"x" * 50, "no whole Parquet file"),
    ],
)
def test_data_that_is_broken(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    fill(tmp_path, {name: data})
    with pytest.raises(BadModelFiles) as caught:
        check_files(gather(tmp_path, "dataset", USUAL).files)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": 2}'),
        ("a.jsonl", b'{"a": 1}\n\n\n'),
        ("a.jsonl", json.dumps({"a": "x" * 3_000_000}).encode()),
        ("a.jsonl", b'{"a": 1}\n' + json.dumps({"a": "x" * 3_000_000}).encode() + b"\n"),
        ("a.parquet", b"PAR1" + b"0123456789PAR1"),
        ("a.csv", b"a,b\n"),
    ],
)
def test_data_that_is_whole(name: str, data: bytes, tmp_path: Path) -> None:
    fill(tmp_path, {name: data})
    check_files(gather(tmp_path, "dataset", USUAL).files)


def test_patterns_and_nothing_left(tmp_path: Path) -> None:
    folder = fill(tmp_path, MODEL)
    with pytest.raises(NotFound, match=r"No file is called 'x\.gguf'"):
        gather(folder, "model", Selection(include=("x.gguf",)))
    with pytest.raises(NotFound, match="is left to upload"):
        gather(folder, "model", Selection(exclude=("*",)))


def test_files_that_change(tmp_path: Path) -> None:
    folder = fill(tmp_path, MODEL)
    files = gather(folder, "model", USUAL).files
    assert list(changed_files(files)) == []
    before = (folder / "config.json").stat()
    fill(folder, {"config.json": MODEL["config.json"].replace(b"llama", b"LLAMA")})
    os.utime(folder / "config.json", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    (folder / "tokenizer.json").unlink()
    assert list(changed_files(files)) == ["config.json", "tokenizer.json"]
    (folder / "new").write_bytes(WEIGHTS_AGAIN)
    (folder / "new").replace(folder / "model.safetensors")
    assert "model.safetensors" in list(changed_files(files))


WEIGHTS_AGAIN = weights(300_000)
