"""A tiny config for every architecture that mlx-lm knows, made of the fields that it asks for.

`families.json` beside this module holds the values of fields by their names, and what some
architectures need beside them.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_DATA = json.loads(Path(__file__).with_name("families.json").read_text(encoding="utf-8"))

# What cannot be built on a CPU, and why.
UNBUILDABLE = {
    "bitnet": "needs a Metal kernel",
    "muse_spark": "needs a Metal kernel",
    "olmo": "needs the package ai2-olmo",
    "prism_hadamard_qwen35": "needs a Metal kernel",
}
# What can be built, but takes the process with it when it computes.
CRASHES = {"phi3small": "writes to token ids above 100,000, which a tiny vocabulary does not have"}


def families() -> list[str]:
    """Return the names of the architectures that can be built on a CPU."""
    package = find_spec("mlx_lm")
    (folder,) = package.submodule_search_locations or [] if package else []
    found = sorted(Path(folder, "models").glob("*.py"))
    text = {file.stem: file.read_text(encoding="utf-8") for file in found}
    return [name for name in text if name not in UNBUILDABLE and "class ModelArgs" in text[name]]


def safe_families() -> list[str]:
    """Return the names of the architectures that can be built and computed on a CPU."""
    return [name for name in families() if name not in CRASHES]


def tiny_config(family: str) -> dict[str, Any]:
    """Return a config of a few layers.

    Raises:
        KeyError: the architecture asks for a field that `families.json` has no value for.
    """
    special = copy.deepcopy(_DATA["special"].get(family, {}))
    if "text_config" in special:
        special["text_config"] = copy.deepcopy(_DATA["text"]) | special["text_config"]
    config: dict[str, Any] = {"model_type": family, **special}
    for field in dataclasses.fields(_module(family).ModelArgs):
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if field.name in config or not (required or field.name in _DATA["always"]):
            continue
        if required or field.name in _DATA["usual"]:
            config[field.name] = copy.deepcopy(_DATA["usual"][field.name])
    return config


def build(family: str) -> Any:
    """Return a model with random weights."""
    module = _module(family)
    return module.Model(module.ModelArgs.from_dict(tiny_config(family)))


def _module(name: str) -> Any:
    return importlib.import_module(f"mlx_lm.models.{name}")
