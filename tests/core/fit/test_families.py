"""The table of architectures says of each what mlx-lm's own caches keep."""

from __future__ import annotations

import pytest

from core.fit.families import read_shape
from core.fit.kv import KvShape
from core.fit.shapes import KvFormat
from tests.core.fit.tiny_families import build, families, tiny_config

# Not in our table: counted as full attention, and said to be approximate.
UNKNOWN = {"deepseek_v41"}
# `measure_kv` counts what it keeps of a chunk as a constant; a ring of hashes takes 8 bytes.
ELSEWHERE = {"llama4", "longcat_flash_ngram"}
LENGTHS = (1, 300, 5000)


@pytest.mark.parametrize("family", families())
def test_kv_is_what_the_caches_keep(family: str) -> None:
    import mlx.core as mx

    from core.engine.measure import measure_kv

    model = build(family)
    shape = read_shape(tiny_config(family))
    assert shape.known == (family not in UNKNOWN)
    for dtype, size in ((mx.float32, 4), (mx.bfloat16, 2)):
        model.set_dtype(dtype)
        kept = KvShape(layers=tuple(m.kept(KvFormat(float_bytes=size)) for m in shape.mixers()))
        if family in UNKNOWN | ELSEWHERE:
            continue
        measured = measure_kv(model)
        assert [kept.row_bytes(n) for n in LENGTHS] == [measured.row_bytes(n) for n in LENGTHS]
