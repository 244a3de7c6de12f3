"""An assessment as JSON: every field, numbers as numbers, bytes as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commands._shared.failure import error_as_json
from commands.fit.quantizing import quantizing_as_json
from core.fit.advice import verdict
from core.fit.config import NO_LIMIT

if TYPE_CHECKING:
    from commands.fit.quantizing import Quantizing
    from core.errors import MlxbunError
    from core.fit.assess import Assessment
    from core.fit.host import Host


def as_json(found: Assessment, *, quantizing: Quantizing | None = None) -> dict[str, Any]:
    """Return an assessment as plain values; lengths without a limit are None.

    Args:
        found: the assessment.
        quantizing: the quantization that it is of, or None.
    """
    more = {} if quantizing is None else {"quantizing": quantizing_as_json(quantizing)}
    weights, shape = found.candidate.weights, found.candidate.shape
    return {
        "model": found.candidate.model_id,
        "revision": found.candidate.revision,
        "downloaded": found.candidate.folder is not None,
        "type": shape.model_type,
        "known": shape.known,
        "parameters": weights.parameters,
        "active_parameters": weights.active_parameters,
        "machine": _machine(found.host),
        "context": found.context,
        "rows": found.rows,
        "kv_bits": found.kv_bits,
        "window": _limit(found.window),
        "fits": found.fits,
        "verdict": verdict(found),
        "advice": found.advice,
        "max_context": _limit(found.max_context),
        "weights_bytes": found.memory.weights_bytes,
        "kv_bytes": found.memory.kv_bytes,
        "transient_bytes": found.memory.transient_bytes,
        "total_bytes": found.memory.total_bytes,
        "reserved_bytes": found.reserved_bytes,
        "needed_bytes": found.needed_bytes,
        "usable_bytes": found.host.usable_bytes,
        "weights": {
            "in_memory": found.storage,
            "stored_bytes": weights.stored_bytes,
            "files_bytes": weights.files_bytes,
        },
        "kv": {
            "bytes_per_token": found.kv_token_bytes,
            "float_bytes": found.kv_float_bytes,
            "layers": shape.kinds(),
        },
        "predicted": _predicted(found),
        "measured": _measured(found),
        "lane": found.batching.lane if found.batching else "not tried",
        "lane_reason": found.batching.serial_reason if found.batching else None,
        "notes": list(found.notes),
        **more,
    }


def problem_as_json(name: str, problem: MlxbunError) -> dict[str, Any]:
    """Return why nothing can be told of a model."""
    return {"model": name, "fits": None, "error": error_as_json(problem)}


def _machine(host: Host) -> dict[str, Any]:
    bandwidth, fp16 = host.speed.bandwidth, host.speed.fp16
    return {
        "name": host.name,
        "memory_bytes": host.memory_bytes,
        "usable_bytes": host.usable_bytes,
        "bandwidth_gbs": bandwidth and bandwidth / 1e9,
        "fp16_tflops": fp16 and fp16 / 1e12,
        "unconfirmed": list(host.sku.unconfirmed) if host.sku else [],
    }


def _predicted(found: Assessment) -> dict[str, Any] | None:
    if found.prediction is None:
        return None
    return {
        "decode_tps": found.prediction.decode,
        "prefill_tps": found.prediction.prefill,
        "ttft_s": found.prediction.ttft,
    }


def _measured(found: Assessment) -> dict[str, Any] | None:
    if (measured := found.measured) is None:
        return None
    return {
        "measured_at": measured.measured_at.isoformat(),
        "loaded_as": measured.loaded_as,
        "decode_tps": measured.decode,
        "prefill_tps": measured.prefill,
        "prefill_tokens": measured.prefill_tokens,
        "ttft_s": measured.ttft,
    }


def _limit(tokens: int) -> int | None:
    return tokens if tokens < NO_LIMIT else None
