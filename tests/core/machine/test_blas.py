"""A fast BLAS before MLX: found, checked, and never a reason not to start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import UsageProblem
from core.machine.blas import _load, _multiplies_right, restore_names

linux = pytest.mark.skipif(sys.platform != "linux", reason="macOS has Accelerate")


def in_new_process(setting: str, cache: Path, before: str = "") -> dict[str, object]:
    script = f"""
import json, sys, time
from dataclasses import asdict
from pathlib import Path
{before}
from core.machine.blas import load_blas
blas = load_blas({setting!r}, cache=Path({str(cache)!r}))
import mlx.core as mx
left = mx.arange(6, dtype=mx.float32).reshape(2, 3)
product = (left @ left.T).tolist()
mapped = Path("/proc/self/maps").read_text()
print(json.dumps(asdict(blas) | {{"product": product, "mapped": str(blas.path) in mapped}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    report: dict[str, object] = json.loads(done.stdout)
    assert report["product"] == [[5.0, 14.0], [14.0, 50.0]]
    return report


@linux
def test_the_one_that_pip_brings_is_prepared_and_used(tmp_path: Path) -> None:
    report = in_new_process("auto", tmp_path)
    assert report["fast"]
    assert report["mapped"]
    assert "OpenBLAS" in str(report["name"])


@linux
def test_the_renamed_copy_is_made_once_and_can_be_named(tmp_path: Path) -> None:
    first = restore_names(tmp_path)
    assert first is not None
    made = first.stat().st_mtime_ns
    assert restore_names(tmp_path) == first
    assert first.stat().st_mtime_ns == made
    assert [file.name for file in first.parent.iterdir()] == ["libopenblas.so"]
    assert in_new_process(str(first), tmp_path)["path"] == str(first)


@linux
def test_off_keeps_mlxs_own(tmp_path: Path) -> None:
    report = in_new_process("off", tmp_path)
    assert not report["fast"]
    assert report["path"] is report["note"] is None


@linux
def test_too_late_is_said(tmp_path: Path) -> None:
    report = in_new_process("auto", tmp_path, before="import mlx.core")
    assert not report["fast"]
    assert "imported before" in str(report["note"])


@linux
def test_a_second_engine_finds_the_one_of_the_first(tmp_path: Path) -> None:
    first = (
        f"from core.machine.blas import load_blas; load_blas('auto', cache=Path({str(tmp_path)!r}))"
    )
    report = in_new_process("auto", tmp_path, before=f"{first}\nimport mlx.core")
    assert report["fast"]
    assert report["mapped"]


@linux
def test_a_cache_that_cannot_be_written_means_a_note_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "blas").write_text("a file in the way")
    report = in_new_process("auto", tmp_path, before="import core.machine.blas as b\n"
                            "b._find_system_library = lambda: None")  # fmt: skip
    assert not report["fast"]
    assert "could not be prepared" in str(report["note"])


@pytest.mark.parametrize("path", ["/nowhere/libblas.so", __file__])
def test_an_explicit_path_that_is_no_blas_is_refused(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from core.machine.blas import load_blas

    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    with pytest.raises(UsageProblem, match="cannot be used"):
        load_blas(path, cache=tmp_path)


@linux
def test_a_library_without_the_symbol_is_refused() -> None:
    assert _load("libc.so.6") == "it has no cblas_sgemm"


def test_a_wrong_product_is_noticed() -> None:
    assert not _multiplies_right(lambda *_arguments: None)  # type: ignore[arg-type]
