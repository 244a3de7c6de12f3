"""What was measured on this machine and is kept: benchmark runs and their figures."""

from core.figures.identity import machine_key, model_revision
from core.figures.records import Evaluation, Figure, FigureKind, MachineIdentity, Run, RunSettings
from core.figures.store import FigureStore

__all__ = [
    "Evaluation",
    "Figure",
    "FigureKind",
    "FigureStore",
    "MachineIdentity",
    "Run",
    "RunSettings",
    "machine_key",
    "model_revision",
]
