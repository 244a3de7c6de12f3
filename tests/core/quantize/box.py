"""A Hugging Face cache and a home of their own, and quantizations into them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.paths import Paths
from core.quantize.events import Note, QuantizeEvent
from core.quantize.open import QuantizePlan, never
from core.quantize.recipe import make_recipe
from core.quantize.run import QuantizeResult, plan_quantize, run_quantize
from core.registry.library import library
from core.settings import Settings, merge_settings
from tests.tiny import llama_config, make_model

FAST = {"bits": 4, "group_size": 32, "proof": False}


@dataclass
class Box:
    """Everything lies under one folder."""

    root: Path
    notes: list[str] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        own = {"HF_HOME": "hf", "MLXBUN_HOME": "home", "MLXBUN_CACHE": "cache"}
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.root),
            **{name: str(self.root / part) for name, part in own.items()},
        }

    @property
    def paths(self) -> Paths:
        return Paths.from_environ(self.environ)

    @property
    def settings(self) -> Settings:
        return merge_settings(config={"blas": "off"}, environ={}, flags={}).values

    def model(self, name: str = "model", **changes: Any) -> Path:
        """Make a tiny llama."""
        return make_model(self.root / name, config=llama_config(**changes))

    def quantize(
        self, model: Path | str, *, should_stop: Callable[[], bool] = never, **fields: Any
    ) -> QuantizeResult:
        return run_quantize(
            make_recipe({"model_id": str(model), **FAST, **fields}),
            settings=self.settings,
            paths=self.paths,
            environ=self.environ,
            on_event=self._hear,
            should_stop=should_stop,
        )

    def plan(self, model: Path | str, **fields: Any) -> QuantizePlan:
        return plan_quantize(
            make_recipe({"model_id": str(model), **FAST, **fields}),
            settings=self.settings,
            paths=self.paths,
            environ=self.environ,
            on_event=self._hear,
        )

    def listed(self) -> list[tuple[str, str | None, bool]]:
        """Return what `ls` shows."""
        cards = library(self.paths, self.settings)
        return [(card.name, card.commit, card.supported) for card in cards]

    def _hear(self, event: QuantizeEvent) -> None:
        if isinstance(event, Note):
            self.notes.append(event.line)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder, links followed."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def config_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found
