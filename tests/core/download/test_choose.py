"""Files for MLX are chosen; duplicates for other programs are not, unless asked for."""

from __future__ import annotations

import pytest

from core.download.choose import Choice, choose_files
from core.errors import BadModelFiles, NotFound

SIZES = {
    ".gitattributes": 1,
    "README.md": 10,
    "LICENSE": 10,
    "config.json": 10,
    "chat_template.jinja": 10,
    "merges.txt": 10,
    "model-00001-of-00002.safetensors": 1000,
    "model-00002-of-00002.safetensors": 1000,
    "model.safetensors.index.json": 10,
    "modeling_x.py": 10,
    "tokenizer.json": 10,
    "tokenizer.model": 10,
    "qwen.tiktoken": 10,
    "consolidated.safetensors": 2000,
    "consolidated.00.pth": 2000,
    "original/params.json": 5,
    "original/consolidated.00.pth": 2000,
    "onnx/config.json": 5,
    "onnx/model.onnx": 900,
    "pytorch_model.bin": 2000,
    "model.gguf": 2000,
    "flax_model.msgpack": 2000,
    "tf_model.h5": 2000,
    "preview.png": 7,
}


def _choose(
    sizes: dict[str, int] = SIZES, *, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
) -> list[str]:
    return choose_files(sizes, Choice(include=include, exclude=exclude), repo_id="org/name")


def test_weights_configs_tokenizers_and_what_a_person_reads() -> None:
    assert _choose() == [
        "LICENSE",
        "README.md",
        "chat_template.jinja",
        "config.json",
        "merges.txt",
        "model.safetensors.index.json",
        "modeling_x.py",
        "qwen.tiktoken",
        "tokenizer.json",
        "tokenizer.model",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]


def test_include_takes_the_place_of_the_usual_patterns() -> None:
    assert _choose(include=("*.gguf", "README.md")) == ["README.md", "model.gguf"]
    assert _choose(include=("original/",)) == [
        "original/consolidated.00.pth",
        "original/params.json",
    ]
    assert _choose(include=("original/*",), exclude=("*.pth",)) == ["original/params.json"]


def test_exclude_takes_away() -> None:
    left = _choose(exclude=("*.py", "LICENSE"))
    assert set(_choose()) - set(left) == {"modeling_x.py", "LICENSE"}
    assert _choose({"a.json": 1, "a.safetensors": 2}, exclude=("*.safetensors",)) == ["a.json"]


@pytest.mark.parametrize("pattern", ["tokenizer.jsn", "*.npz", "Config.json", ""])
def test_a_pattern_that_fits_nothing_is_a_missing_file(pattern: str) -> None:
    with pytest.raises(NotFound, match="No file of org/name is called") as caught:
        _choose(include=("config.json", pattern))
    assert "16 more" in str(caught.value.hint)


def test_no_weights_are_told_with_what_there_is_instead() -> None:
    with pytest.raises(BadModelFiles) as caught:
        _choose({"config.json": 1, "a.gguf": 4_000_000, "b.gguf": 1, "pytorch_model.bin": 5_000})
    assert caught.value.message == (
        "org/name has no safetensors weights, only .gguf (4 MB), .bin (5 kB)."
    )
    assert "--include" in str(caught.value.hint)
    with pytest.raises(BadModelFiles, match=r"no safetensors weights\.$"):
        _choose({"config.json": 1})
    with pytest.raises(BadModelFiles):
        _choose({})


def test_small_files_alone_can_be_asked_for() -> None:
    assert _choose({"config.json": 1, "data.csv": 2}, include=("*",)) == ["config.json", "data.csv"]


def test_nothing_left_is_told() -> None:
    with pytest.raises(NotFound, match="--exclude fits every file"):
        _choose(include=("*.json",), exclude=("*",))
