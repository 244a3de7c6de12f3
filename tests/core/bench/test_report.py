"""From samples to figures."""

from __future__ import annotations

from core.bench.measure import Sample
from core.bench.report import summarize


def test_samples_are_gathered_by_kind_and_size_in_order() -> None:
    samples = [
        Sample(kind="decode", size=8, value=80.0),
        Sample(kind="decode", size=1, value=10.0),
        Sample(kind="prefill", size=128, value=300.0),
        Sample(kind="decode", size=8, value=90.0),
        Sample(kind="ttft_warm", size=128, value=0.1),
        Sample(kind="decode", size=8, value=70.0),
    ]
    figures = summarize(samples)
    assert [(figure.kind, figure.size) for figure in figures] == [
        ("prefill", 128),
        ("decode", 1),
        ("decode", 8),
        ("ttft_warm", 128),
    ]
    assert figures[2].samples == (80.0, 90.0, 70.0)
    assert figures[2].median == 80.0


def test_no_samples_make_no_figures() -> None:
    assert summarize([]) == ()
