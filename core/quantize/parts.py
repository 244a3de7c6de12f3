"""Where the parts of a quantization that have modules of their own are called, each in one place.

Everything is imported when it is needed: a plain uniform run uses none of it.
"""

# ruff: noqa: ARG001 - what is not built yet takes what it will need
from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import MlxbunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from core.evals.table import ProofTable
    from core.quantize.open import Opened
    from core.quantize.plan import Plan
    from core.quantize.source import Source
    from core.quantize.write import Packed


def rotate_source(opened: Opened, source: Source) -> Source:
    """Return a source with rotated weights, lazily.

    Raises:
        MlxbunError: this build cannot rotate.
    """
    raise _missing("rotate_weights")


def choose_forms(opened: Opened) -> Plan:
    """Return the plan with the forms that mixed precision gives every layer.

    Raises:
        MlxbunError: this build cannot choose.
    """
    raise _missing("target_bpw")


def fitted_packs(opened: Opened, plan: Plan) -> Iterator[Packed] | None:
    """Return the packed layers of a model, fitted to calibration text; None: by plain rounding."""
    return None


def prove(opened: Opened, folders: Mapping[str, Path]) -> ProofTable:
    """Return the table that compares written models with the original.

    Args:
        opened: the run.
        folders: of written models, by what they are called: `mixed`, `uniform`.

    Raises:
        MlxbunError: a model cannot be computed.
    """
    from core.quantize.proof import prove as measured

    return measured(opened, folders)


def write_kv_config(opened: Opened, folder: Path) -> None:
    """Measure which layers' KV may be packed, and write `kv_config.json` beside a model.

    Raises:
        MlxbunError: this build cannot measure.
    """
    raise _missing("kv_config")


def _missing(what: str) -> MlxbunError:
    return MlxbunError(f"This build of mlxbun cannot do this yet: {what}.")
