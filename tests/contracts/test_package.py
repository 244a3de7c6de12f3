"""What is installed: the wheel's contents, and what the lock leaves out."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_our_packages_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name.split("/")[0] for name in archive.namelist()}
    assert names == {"mlxbun_cli", "commands", "core", f"mlxbun-{version('mlxbun')}.dist-info"}


@pytest.mark.parametrize("package", ["torch", "triton"])
def test_the_lock_installs_neither_torch_nor_triton(package: str) -> None:
    with pytest.raises(PackageNotFoundError):
        version(package)
    for lock in ("runtime.txt", "dev.txt"):
        lines = (ROOT / "requirements" / lock).read_text().splitlines()
        assert not any(line.startswith(f"{package}==") for line in lines)


@pytest.mark.parametrize("lock", ["runtime.txt", "dev.txt"])
def test_every_locked_package_has_a_hash_and_no_address(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    blocks = text.replace("\\\n", " ").splitlines()
    assert len(blocks) > 20
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text


def test_both_init_files_hold_a_docstring_only() -> None:
    for package in ("core", "commands"):
        lines = (ROOT / package / "__init__.py").read_text().strip().splitlines()
        assert len(lines) == 1
        assert lines[0].startswith('"""')


@pytest.mark.slow  # budget: 1 minute; asks the package index about four Pythons on three platforms
def test_the_lock_installs_on_every_platform() -> None:
    done = subprocess.run(
        ["make", "platforms"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": ok") == 12
