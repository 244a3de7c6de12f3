"""--kv-budget: rows wait for room, and what can never fit is refused."""

from __future__ import annotations

import pytest

from core.engine.events import Finished
from core.engine.request import GenerationRequest, SamplingParams, TextPrompt
from core.errors import ContextTooLong, DoesNotFit
from core.fit.admission import Admission
from core.fit.kv import KvShape, LayerKv
from core.units import GB
from tests.core.engine.conftest import OpenEngine

# Of the tiny model: 2 layers, keys and values, 2 heads of 16 in float32; caches grow by 256 tokens.
_ROW = 256 * 2 * 2 * 2 * 16 * 4
_IGNORES_EOS = SamplingParams(temperature=0.0, logit_bias=((256, -1e9),))


def _request(tokens: int, prompt: int = 8) -> GenerationRequest:
    return GenerationRequest(
        prompt=TextPrompt(text="a" * prompt), max_tokens=tokens, sampling=_IGNORES_EOS
    )


@pytest.mark.parametrize(("rows", "together"), [(1, 1), (2, 2), (None, 3)])
def test_rows_wait_until_the_budget_has_room(
    open_tiny: OpenEngine, rows: int | None, together: int
) -> None:
    engine = open_tiny(kv_budget_gb=None if rows is None else rows * _ROW / GB)
    assert engine.stats().kv_budget_bytes == (None if rows is None else rows * _ROW)
    generations = [engine.submit(_request(200)) for _ in range(3)]
    events = iter(generations[0])
    for _ in range(20):
        next(events)
    now = engine.stats()
    assert (now.active_rows, now.waiting_rows) == (together, 3 - together)
    endings = [[*events][-1], *([*generation][-1] for generation in generations[1:])]
    assert all(isinstance(ending, Finished) for ending in endings)
    assert [e.usage.completion_tokens for e in endings if isinstance(e, Finished)] == [200] * 3


def test_a_row_counts_with_all_that_it_may_generate(open_tiny: OpenEngine) -> None:
    engine = open_tiny(kv_budget_gb=3 * _ROW / GB)
    first, second = engine.submit(_request(300)), engine.submit(_request(300))
    events = iter(first)
    next(events)
    assert engine.stats().active_rows == 1  # each is sure to need two blocks of 256 tokens
    assert isinstance([*events][-1], Finished)
    assert isinstance([*second][-1], Finished)


def test_a_prompt_that_can_never_fit_is_refused_by_name(open_tiny: OpenEngine) -> None:
    engine = open_tiny(kv_budget_gb=_ROW / GB)
    assert engine.max_context == 256
    with pytest.raises(ContextTooLong) as refusal:
        engine.submit(_request(1, prompt=300))
    assert "--kv-budget" in str(refusal.value.hint)
    generous = open_tiny()
    with pytest.raises(ContextTooLong) as refusal:
        generous.submit(_request(1, prompt=600))
    assert "--kv-budget" not in str(refusal.value.hint)


def test_an_answer_without_a_limit_ends_within_the_budget(open_tiny: OpenEngine) -> None:
    engine = open_tiny(kv_budget_gb=_ROW / GB)
    unlimited = GenerationRequest(prompt=TextPrompt(text="abc"), sampling=_IGNORES_EOS)
    *_, last = engine.submit(unlimited)
    assert isinstance(last, Finished)
    assert last.usage.prompt_tokens + last.usage.completion_tokens == 256


def test_a_budget_without_room_for_a_context_is_refused(open_tiny: OpenEngine) -> None:
    with pytest.raises(DoesNotFit, match="KV budget") as refusal:
        open_tiny(kv_budget_gb=1000 / GB)
    assert (refusal.value.need, refusal.value.have) == (_ROW, 1000)


def test_models_without_kv_have_no_use_for_a_budget() -> None:
    state = KvShape(layers=(LayerKv(constant_bytes=100),))
    admission = Admission(kv=state, room_bytes=10_000, context_window=50, kv_budget_bytes=250)
    assert admission.max_context == 50
    assert admission.fits((10, 40), [(10, 40)])
    assert not admission.fits((10, 40), [(10, 40)] * 2)
