"""Short names for a machine and for the exact files of a model, so that figures find their like."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

_GIB = 2**30


class _Machine(Protocol):
    """What `core.machine.probe.Machine` and `MachineIdentity` share."""

    @property
    def processor(self) -> str: ...
    @property
    def cores(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def backend(self) -> str: ...


def machine_key(machine: _Machine) -> str:
    """Return one line that two machines share when figures of one hold for the other.

    Memory counts in whole GiB: a kernel update may take a few pages more.
    """
    memory = round(machine.memory_bytes / _GIB)
    return f"{machine.processor}, {machine.cores} cores, {memory} GiB, {machine.backend}"


def model_revision(folder: Path) -> str:
    """Return what tells these files of a model from others of the same name.

    A snapshot of the Hugging Face cache (`snapshots/<commit>`) has its commit. Any other folder
    gets `files-` and 16 hexadecimal digits over config.json and the names and sizes of its weight
    files: reading the weights would take longer than measuring them.
    """
    if folder.parent.name == "snapshots":
        return folder.name
    digest = hashlib.sha256()
    config = folder / "config.json"
    digest.update(config.read_bytes() if config.is_file() else b"")
    for file in sorted(folder.glob("*.safetensors")):
        size = file.stat().st_size if file.exists() else 0
        digest.update(f"\n{file.name} {size}".encode())
    return f"files-{digest.hexdigest()[:16]}"
