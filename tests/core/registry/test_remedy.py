"""The advice about a folder that cannot be loaded fits its contents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import BadModelFiles
from core.registry.remedy import diagnose, remedy
from core.registry.resolve import resolve_model
from tests.caches import WORDS, safetensors

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def _model(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **WORDS}))
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"model-q4__gguf": "GGUF"}, "mlxbun import"),
        ({"pytorch_model__bin": "x"}, "safetensors version"),
        ({"adapter_config__json": "{}", "adapters__safetensors": "x"}, "--adapter"),
        ({"model__safetensors": POINTER}, "git lfs pull"),
        ({"model__safetensors": safetensors(), "tokenizer__json": POINTER}, "git lfs pull"),
    ],
)
def test_the_advice_fits_the_files(
    files: dict[str, str | bytes], words: str, tmp_path: Path
) -> None:
    folder = _model(tmp_path / "model", **files)
    assert words in str(remedy(folder))


def test_a_whole_model_needs_no_advice(tmp_path: Path) -> None:
    folder = _model(tmp_path / "model", model__safetensors=safetensors())
    assert remedy(folder) is None
    assert remedy(tmp_path / "none") is None


def test_a_pointer_is_named_as_such(tmp_path: Path) -> None:
    folder = _model(tmp_path / "model", model__safetensors=POINTER)
    with pytest.raises(BadModelFiles, match="is a Git LFS pointer") as caught:
        resolve_model(str(folder), hub_cache=tmp_path)
    assert "git lfs pull" in str(caught.value.hint)


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    folder = _model(
        tmp_path / "model", model__safetensors=safetensors(), special_tokens_map__json=""
    )
    reason, hint = diagnose(folder)
    assert reason == "special_tokens_map.json is not valid JSON"
    assert "Fix the file" in str(hint)


def test_an_architecture_that_is_not_known_is_named(tmp_path: Path) -> None:
    folder = _model(tmp_path / "model", model__safetensors=safetensors())
    (folder / "config.json").write_text(json.dumps({"model_type": "frobnicator", **WORDS}))
    reason, hint = diagnose(folder)
    assert "does not load the type frobnicator" in str(reason)
    assert "mlxbun ls" in str(hint)
