"""How the served model fits this machine and every Mac: the body of `GET /fit`."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from commands.serve.wire.api import clean
from core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from core.fit.assess import Assessment


class FitMachine(Struct, kw_only=True):
    """The machine that the server runs on."""

    chip: str
    ram_bytes: int
    bandwidth_gbs: Annotated[float | None, Meta(description="10^9 bytes a second; null: unknown")]


class FitReport(Struct, kw_only=True):
    """What the model takes at `context_tokens`."""

    fits: bool
    weights_bytes: int
    kv_bytes: int
    transient_bytes: int
    total_bytes: int
    usable_bytes: int
    max_safe_context: Annotated[int, Meta(description="tokens; 2147483647 is any number")]
    predicted_decode_tps: Annotated[
        float | None, Meta(description="null: this machine's bandwidth is not known")
    ]


class FitSku(Struct, kw_only=True):
    """The model on one Mac."""

    sku: str
    ram_gb: int
    fits: bool
    max_context: Annotated[int, Meta(description="tokens; 0: none fit")]
    decode_tps: Annotated[float, Meta(description="predicted; 0: it does not fit")]


class Fit(Struct, kw_only=True):
    """The body of `GET /fit`."""

    machine: FitMachine
    context_tokens: Annotated[int, Meta(description="what the server admits at most")]
    typical_context_tokens: Annotated[int, Meta(description="8,192, or that where it is less")]
    typical_decode_tps: Annotated[float | None, Meta(description="predicted")]
    measured_decode_tps: Annotated[
        float | None, Meta(description="what `mlxbun bench` measured here; null: nothing")
    ]
    measured_at: Annotated[int | None, Meta(description="Unix milliseconds")]
    report: FitReport
    sku_matrix_ctx: Annotated[int, Meta(description="32,768, or the model's window if smaller")]
    sku_matrix: list[FitSku]


def fit_body(longest: Assessment, usual: Assessment, macs: Sequence[Assessment]) -> Fit:
    """Return the body.

    Args:
        longest: the model on this machine, at the longest context that is admitted.
        usual: the same at a usual context.
        macs: on each Mac, all at one context.
    """
    host, measured = longest.host, usual.measured
    bandwidth = host.speed.bandwidth
    return Fit(
        machine=FitMachine(
            chip=clean(host.name),
            ram_bytes=host.memory_bytes,
            bandwidth_gbs=None if bandwidth is None else bandwidth / 1e9,
        ),
        context_tokens=longest.context,
        typical_context_tokens=usual.context,
        typical_decode_tps=_predicted(usual),
        measured_decode_tps=measured.decode if measured else None,
        measured_at=_milliseconds(measured.measured_at)
        if measured and measured.decode is not None
        else None,
        report=_report(longest),
        sku_matrix_ctx=macs[0].context if macs else 0,
        sku_matrix=[_sku(found) for found in macs],
    )


def _report(found: Assessment) -> FitReport:
    return FitReport(
        fits=found.fits,
        weights_bytes=found.memory.weights_bytes,
        kv_bytes=found.memory.kv_bytes,
        transient_bytes=found.memory.transient_bytes,
        total_bytes=found.memory.total_bytes,
        usable_bytes=found.host.usable_bytes,
        max_safe_context=found.max_context,
        predicted_decode_tps=_predicted(found),
    )


def _sku(found: Assessment) -> FitSku:
    return FitSku(
        sku=found.host.name,
        ram_gb=found.host.memory_bytes // GIB,
        fits=found.fits,
        max_context=found.max_context,
        decode_tps=(_predicted(found) or 0.0) if found.fits else 0.0,
    )


def _predicted(found: Assessment) -> float | None:
    return found.prediction.decode if found.prediction else None


def _milliseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)
