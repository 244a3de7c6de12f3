"""Whether models fit this machine, for the routes that tell: remembered as long as files stay.

Imports no MLX: everything comes from configs and headers (`core.fit`), which come in when the first
one asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from core.errors import BadModelFiles, MlxbunError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from core.engine.info import ModelInfo
    from core.fit.assess import Assessment, Assessor
    from core.fit.host import Host
    from core.paths import Paths
    from core.registry.library import ModelCard
    from core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a model fits this machine, at 8,192 tokens or at its window where that is less."""

    fits: bool
    """Whether it does."""
    max_context: int
    """Most tokens of prompt and answer that fit."""
    decode: float | None
    """Tokens a second, predicted; None: this machine's bandwidth is not known."""


@dataclass(frozen=True, kw_only=True)
class JudgedModel:
    """A model on this disk."""

    card: ModelCard
    """What it is."""
    verdict: Verdict | None
    """Whether it fits; None: its files do not tell."""


@dataclass(frozen=True, kw_only=True)
class ServedFit:
    """The model in memory on this machine and on every Mac."""

    longest: Assessment
    """At the longest context that the server admits."""
    usual: Assessment
    """At 8,192 tokens, or at that context where it is shorter."""
    macs: tuple[Assessment, ...]
    """At 32,768 tokens, or at the model's window where that is less."""


class Verdicts:
    """Judges models. Safe in any thread; reads the disk."""

    def __init__(
        self,
        *,
        paths: Paths,
        settings: Settings,
        host: Host,
        usable_bytes: Callable[[], int],
    ) -> None:
        """Take what decides.

        Args:
            paths: the Hugging Face cache and our folders; what was measured lies there, too.
            settings: `model_folders` counts.
            host: this machine.
            usable_bytes: tells what the engine lets weights and caches take.
        """
        self._paths = paths
        self._settings = settings
        self._host = host
        self._usable_bytes = usable_bytes
        # Two, for the list of many models takes longer than anybody who asks for one can wait.
        self._listing, self._serving = Lock(), Lock()
        self._known: dict[tuple[object, ...], Verdict | None] = {}
        self._served: tuple[Path, Assessor] | None = None

    def library(self) -> list[JudgedModel]:
        """Return every model on this disk, by name.

        Raises:
            StoreCorrupt: the cache folder cannot be read.
        """
        from core.registry.library import library

        with self._listing:
            host = self._here()
            known, self._known = self._known, {}
            cards = library(self._paths, self._settings)
            return [self._judged(card, host, known) for card in cards]

    def served(self, info: ModelInfo, *, context: int) -> ServedFit:
        """Return how the model in memory fits.

        Args:
            info: the model.
            context: the most tokens of prompt and answer that the server admits.

        Raises:
            MlxbunError: its files, or the benchmark store, cannot be read.
        """
        from core.fit.assess import USUAL_CONTEXT, Question

        with self._serving:
            assessor, here = self._assessor(info), self._here()
            longest = max(1, context)
            usual = min(USUAL_CONTEXT, longest)
            return ServedFit(
                longest=assessor.assess(here, Question(context=longest)),
                usual=assessor.assess(here, Question(context=usual)),
                macs=tuple(assessor.matrix()),
            )

    def _judged(
        self, card: ModelCard, host: Host, known: dict[tuple[object, ...], Verdict | None]
    ) -> JudgedModel:
        key = (card.folder, card.commit, card.size_bytes, card.modified, host.usable_bytes)
        verdict = known[key] if key in known else _judge(card, host)
        self._known[key] = verdict
        return JudgedModel(card=card, verdict=verdict)

    def _assessor(self, info: ModelInfo) -> Assessor:
        from core.figures import FigureStore
        from core.fit.assess import Assessor
        from core.fit.candidate import read_candidate
        from core.registry.resolve import ModelRef

        if info.folder is None:
            raise BadModelFiles("It is not known where the files of the served model lie.")
        if self._served is None or self._served[0] != info.folder:
            figures = FigureStore(self._paths.figures_file)
            candidate = read_candidate(ModelRef(model_id=info.model_id, folder=info.folder))
            self._served = info.folder, Assessor(candidate, figures=figures)
        return self._served[1]

    def _here(self) -> Host:
        # What the device recommends is known for sure only once MLX was asked.
        return replace(self._host, usable_bytes=self._usable_bytes())


def _judge(card: ModelCard, host: Host) -> Verdict | None:
    from core.fit.assess import Assessor, Question
    from core.fit.candidate import read_candidate
    from core.registry.resolve import ModelRef

    if card.problem is not None:
        return None
    try:
        candidate = read_candidate(ModelRef(model_id=card.name, folder=card.folder))
        found = Assessor(candidate).assess(host, Question())
    except (MlxbunError, OSError):
        return None
    return Verdict(
        fits=found.fits,
        max_context=found.max_context,
        decode=found.prediction.decode if found.prediction else None,
    )
