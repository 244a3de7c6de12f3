"""Where an adapter lies: a folder in mlx-lm's format. Imports no arrays."""

from __future__ import annotations

from pathlib import Path

from core.errors import BadModelFiles, NotFound

WEIGHTS = "adapters.safetensors"
"""The file with an adapter's matrices."""
CONFIG = "adapter_config.json"
"""The file that says on which layers they belong."""


def find_adapter(name: str) -> Path:
    """Return the folder of an adapter.

    Raises:
        NotFound: there is no such folder.
        BadModelFiles: it holds no adapter.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise NotFound(
            f"There is no adapter folder {name}.", hint="`mlxbun adapters list` shows some."
        )
    for file in (WEIGHTS, CONFIG):
        if not (folder / file).is_file():
            raise BadModelFiles(
                f"{name} is no adapter: it has no {file}.",
                hint="An adapter is a folder as `mlxbun train` or mlx_lm.lora write it.",
            )
    return folder
