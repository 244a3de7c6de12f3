"""What this machine is: memory, processor, compiler. Asks the system, never MLX."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

Backend = Literal["metal", "cuda", "cpu", "none"]

_CUDA_WHEELS = ("mlx-cuda", "mlx-cuda-12", "mlx-cuda-13")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The facts that plans are made from."""

    system: str
    """`Darwin` or `Linux`."""
    architecture: str
    """`arm64`, `x86_64`, `aarch64`."""
    processor: str
    """The chip's name for people."""
    cores: int
    """Processors that this process may use."""
    memory_bytes: int
    """RAM, or the container's limit where that is lower."""
    backend: Backend
    """The MLX backend that is installed; `none`: MLX cannot compute here."""
    compiler: str | None
    """Path of the C++ compiler that MLX calls for fused CPU kernels, or None."""
    python: str
    """Version of the interpreter."""


def probe_machine(environ_path: str | None = None) -> Machine:
    """Look at this machine.

    Args:
        environ_path: the search path for the compiler; None: the process's own.
    """
    system = platform.system()
    return Machine(
        system=system,
        architecture=platform.machine(),
        processor=_processor(system),
        cores=_cores(),
        memory_bytes=_memory_bytes(),
        backend=installed_backend(system),
        compiler=shutil.which("g++", path=environ_path),
        python=platform.python_version(),
    )


def installed_backend(system: str) -> Backend:
    """Return the backend that the installed wheels bring, without importing MLX."""
    if not _installed("mlx"):
        return "none"
    if system == "Darwin":
        return "metal"
    if any(_installed(wheel) for wheel in _CUDA_WHEELS):
        return "cuda"
    return "cpu" if _installed("mlx-cpu") else "none"


def compiler_works(compiler: str, *, cache: Path | None = None) -> bool:
    """Return whether a C++ compiler builds a shared library, as MLX asks of it (0.1 s).

    Args:
        compiler: its path.
        cache: a folder that remembers one that did, until its file changes; None: it is tried.
    """
    memory = _memory_of(compiler, cache) if cache else None
    if memory and memory.exists():
        return True
    works = _try_compiler(compiler)
    if works and memory:
        with suppress(OSError):  # it is tried again next time
            memory.parent.mkdir(parents=True, exist_ok=True)
            memory.touch()
    return works


def _memory_of(compiler: str, cache: Path) -> Path | None:
    """Return the file whose presence says that this very compiler has worked."""
    try:
        found = Path(compiler).resolve(strict=True)
        state = found.stat()
    except OSError:
        return None
    words = f"{found} {state.st_size} {state.st_mtime_ns}"
    return cache / "compilers" / hashlib.sha256(words.encode()).hexdigest()[:16]


def _try_compiler(compiler: str) -> bool:
    program = '#include <cmath>\nextern "C" double twice(double x) { return std::fma(x, 2, 0); }\n'
    command = [compiler, "-std=c++17", "-fPIC", "-shared", "-x", "c++", "-", "-o", os.devnull]
    try:
        done = subprocess.run(
            command, input=program, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int:
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return ram
    return min(ram, int(limit)) if limit.isdigit() else ram


def _processor(system: str) -> str:
    if system == "Darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return answer.stdout.strip() or platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
