"""What a model keeps of a row, read off its caches, against what a long row really takes."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

from core.engine.measure import measure_kv
from tests.core.engine.cache.test_reuse import FAMILIES
from tests.tiny import make_model


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("tokens", [10, 300])
def test_the_prediction_is_what_the_caches_hold(name: str, tokens: int, tmp_path: Path) -> None:
    model, _ = load_model(make_model(tmp_path, config=FAMILIES[name]))
    predicted = measure_kv(model).row_bytes(tokens)
    caches = make_prompt_cache(model)
    mx.eval(model(mx.array([[1] * tokens]), cache=caches))
    for _ in range(3):
        mx.eval(model(mx.array([[1]]), cache=caches))
    held = sum(cache.nbytes for cache in caches)
    assert predicted == pytest.approx(held, rel=0.1)
