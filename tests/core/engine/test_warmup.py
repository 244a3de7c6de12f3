"""The rehearsal at load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.engine import warmup
from core.engine.warmup import warm_up
from core.errors import EngineFailed
from core.machine.threads import ThreadKeeper
from tests.core.engine.test_loader import load_tiny
from tests.tiny import make_model


def test_cores_that_others_use_are_left_to_them_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    seconds, busy = iter([0.0, 100.0, 100.0]), iter([0.0, 100.0])
    keeper = ThreadKeeper(
        counts.append,
        cores=frozenset(range(2)),
        read_busy=lambda cores: next(busy),
        own_seconds=lambda: 0.0,
        clock=lambda: next(seconds),
    )
    loaded = replace(load_tiny(make_model(tmp_path)), threads=keeper)

    def prepare(*_args: Any) -> Any:
        assert counts == [1]
        raise MemoryError

    monkeypatch.setattr(warmup, "_prepare", prepare)
    with pytest.raises(EngineFailed):
        warm_up(loaded, lambda *_: pytest.fail("no runner is made"), batch=2)
    assert counts == [1]
