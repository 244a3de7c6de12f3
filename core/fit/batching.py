"""How rows run together on a model, as a trial on this machine found, and where that is kept.

The engine tries it when it loads a model for the first time (`core.engine.trial`) and keeps the
verdict in our cache, under the content of the model folder and the versions of MLX and mlx-lm.
Imports no arrays.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal, get_args

from core.figures import model_revision
from core.paths import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

BatchMode = Literal["padded", "joined", "serial"]

# Raise it when `core.engine.trial` or the way that rows are batched changes.
_FORM = 1
_COMPUTED_BY = ("mlx", "mlx-lm")


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How rows run together on a model."""

    mode: BatchMode
    """`padded`: prompts are computed together, then rows decode together; `joined`: prompts are
    computed one by one, then rows decode together; `serial`: one row at a time."""
    reason: str | None = None
    """Why not `padded`, one sentence; None: it is, or no model is to blame."""

    @property
    def lane(self) -> Literal["batched", "serial"]:
        """The lane that requests run in."""
        return "serial" if self.mode == "serial" else "batched"

    @property
    def serial_reason(self) -> str | None:
        """Why the model's rows cannot run together; None: they can, or the engine runs one row."""
        return self.reason if self.mode == "serial" else None


class BatchingShelf:
    """The stored verdicts. A damaged one counts as missing; one that cannot be written is lost."""

    def __init__(self, folder: Path) -> None:
        """Take the folder; it need not be there."""
        self._folder = folder

    @classmethod
    def in_cache(cls, cache: Path) -> BatchingShelf:
        """Return the shelf in our cache folder."""
        return cls(cache / "batching")

    def find(self, model: Path, device: str) -> Batching | None:
        """Return the verdict on a model folder, if it was tried on these very files.

        Args:
            model: the folder.
            device: `cpu`, `metal` or `cuda`.
        """
        try:
            fields = json.loads(self._place(model, device).read_bytes())
            found = Batching(mode=fields["mode"], reason=fields["reason"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError, PackageNotFoundError):
            return None
        sound = found.mode in get_args(BatchMode) and isinstance(found.reason, str | None)
        return found if sound else None

    def keep(self, model: Path, device: str, verdict: Batching) -> None:
        """Keep a verdict, if that is possible."""
        try:
            with atomic_write(self._place(model, device)) as file:
                file.write(json.dumps(asdict(verdict)).encode())
        except (OSError, PackageNotFoundError):
            return

    def _place(self, model: Path, device: str) -> Path:
        made = [version(name) for name in _COMPUTED_BY]
        parts = repr((_FORM, made, device, model_revision(model)))
        return self._folder / f"{hashlib.sha256(parts.encode()).hexdigest()[:40]}.json"
