"""The plan: what a CPU needs, and nothing of it elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import BackendMissing
from core.machine import compute
from core.machine.blas import Blas
from core.machine.compute import prepare_compute
from core.machine.probe import Machine, compiler_works, probe_machine

MACHINE = Machine(
    system="Linux",
    architecture="x86_64",
    processor="Test",
    cores=2,
    memory_bytes=16_000_000_000,
    backend="cpu",
    compiler="/usr/bin/g++",
    python="3.11",
)


@pytest.fixture
def plan_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    loaded: list[str] = []

    def load(setting: str, *, cache: Path, search_path: str) -> Blas:
        loaded.append(setting)
        return Blas(name="Fast", path="/lib/fast.so", fast=True)

    def plan(**changes: Any) -> Any:
        machine = replace(MACHINE, **changes)
        monkeypatch.setattr(compute, "probe_machine", lambda path: machine)
        return prepare_compute(blas="auto", dequantize="auto", cache=tmp_path, environ={}), loaded

    monkeypatch.setattr(compute, "load_blas", load)
    monkeypatch.setattr(compute, "thread_setter", lambda library: None)
    monkeypatch.setattr(compute, "compiler_works", lambda path, cache: "broken" not in path)
    return plan


@pytest.mark.parametrize("backend", ["metal", "cuda"])
def test_a_gpu_needs_no_blas_no_compiler_and_no_unpacking(plan_for: Any, backend: str) -> None:
    plan, loaded = plan_for(backend=backend, compiler=None)
    assert loaded == []
    assert plan.blas == "-"
    assert plan.compile_kernels
    assert plan.notes == ()
    assert not plan.unpack_weights(1, 10**12)


def test_a_cpu_gets_all_three(plan_for: Any) -> None:
    plan, loaded = plan_for()
    assert loaded == ["auto"]
    assert plan.compile_kernels
    assert plan.unpack_weights(540_000_000, 12_000_000_000)
    assert not plan.unpack_weights(10_000_000_000, 12_000_000_000)


def test_without_a_compiler_mlx_does_not_compile_and_that_is_said(plan_for: Any) -> None:
    for compiler, words in ((None, "No g++"), ("/broken/g++", "does not work")):
        plan, _ = plan_for(compiler=compiler)
        assert not plan.compile_kernels
        assert plan.compiler == "none"
        assert any(words in note for note in plan.notes)


def test_no_backend_says_what_to_install(plan_for: Any) -> None:
    with pytest.raises(BackendMissing) as problem:
        plan_for(backend="none")
    assert problem.value.hint is not None
    assert "pip install 'mlxbun[cpu]'" in problem.value.hint


def test_the_budget_is_the_users_then_the_devices_then_a_share_of_ram(plan_for: Any) -> None:
    plan, _ = plan_for()
    assert plan.budget_bytes(2.5, 7) == 2_500_000_000
    assert plan.budget_bytes(None, 7) == 7
    assert plan.budget_bytes(None, None) == 12_000_000_000


def test_this_machine_can_be_probed() -> None:
    machine = probe_machine()
    assert machine.backend != "none"
    assert machine.memory_bytes > 10**9
    assert machine.cores >= 1
    assert machine.processor


def test_a_compiler_is_tried(tmp_path: Path) -> None:
    broken = tmp_path / "g++"
    assert not compiler_works(str(broken))
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert not compiler_works(str(broken))
    if real := probe_machine().compiler:
        assert compiler_works(real)


def test_a_compiler_that_worked_is_not_tried_again_until_it_changes(tmp_path: Path) -> None:
    compiler, log = tmp_path / "g++", tmp_path / "log"
    compiler.write_text(f"#!/bin/sh\necho run >> {log}\n")
    compiler.chmod(0o755)
    for _ in range(3):
        assert compiler_works(str(compiler), cache=tmp_path / "cache")
    assert log.read_text() == "run\n"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    assert not compiler_works(str(compiler), cache=tmp_path / "cache")
    compiler.unlink()
    assert not compiler_works(str(compiler), cache=tmp_path / "cache")


def test_the_compiler_is_looked_for_on_the_path(tmp_path: Path) -> None:
    assert probe_machine(str(tmp_path)).compiler is None
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    assert probe_machine(str(tmp_path)).compiler == str(compiler)
