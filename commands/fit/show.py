"""Assessments as people read them: one whole, or a table of models or of Macs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands._shared.listing import Column, Row, lay_out
from commands.fit.quantizing import quantizing_words
from core.fit.advice import longest, verdict
from core.fit.machines import data_checked_on
from core.registry.files import printable
from core.units import format_bytes, format_count, format_number, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands._shared.console import Console
    from commands.fit.command import Outcome
    from commands.fit.quantizing import Quantizing
    from core.fit.assess import Assessment
    from core.fit.weights import Storage

_LONGEST = 4096  # characters; as long as a path can be
_STORAGE: dict[Storage, str] = {
    "stored": "as stored",
    "unpacked": "unpacked to float32",
    "widened": "packed, scales in float32",
}
_KINDS = {
    "full": "full attention",
    "sliding": "sliding attention",
    "latent": "latent attention",
    "state": "constant state",
    "shared": "KV of another layer",
}
_MODEL_COLUMNS = (
    Column(heading="MODEL"),
    Column(heading="WEIGHTS", right=True),
    Column(heading="KV", right=True),
    Column(heading="TOTAL", right=True),
    Column(heading="FITS"),
    Column(heading="UP TO", right=True),
    Column(heading="DECODE", right=True),
)
_MAC_COLUMNS = (
    Column(heading="MAC"),
    Column(heading="USABLE", right=True),
    Column(heading="NEEDS", right=True),
    Column(heading="FITS"),
    Column(heading="UP TO", right=True),
    Column(heading="DECODE", right=True),
    Column(heading="PREFILL", right=True),
    Column(heading="TTFT", right=True),
)
_NOTE = Column(heading="NOTE")


def show_whole(
    found: Assessment, console: Console, *, quantizing: Quantizing | None = None
) -> None:
    """Show one assessment: the verdict, and the numbers under it."""
    console.text(verdict(found) + "\n")
    record = {
        "model": _model(found),
        "machine": _machine(found),
        **(quantizing_words(quantizing) if quantizing else {}),
        "weights": _weights(found),
        "KV": _kv(found),
        "transients": format_bytes(found.memory.transient_bytes),
        "total": format_bytes(found.memory.total_bytes),
        "serve wants": f"{format_bytes(found.reserved_bytes)} for such a request",
        "decode": _decode(found),
        "prefill": _prefill(found),
        "TTFT": _ttft(found),
        "batching": _batching(found),
    }
    console.record({name: told for name, told in record.items() if told is not None})
    for note in found.notes:
        console.note(note)


def show_models(outcomes: Sequence[Outcome], console: Console) -> None:
    """Show models on one machine."""
    rows = [_model_row(outcome) for outcome in outcomes]
    if rows:
        _print(_MODEL_COLUMNS, rows, console)
    found = [each for outcome in outcomes for each in outcome.found]
    if found:
        console.note(f"{_question(found[0])} on {_machine(found[0])}")
    for line in _remarks(found):
        console.note(line)
    _note_quantizing(outcomes, console)


def show_macs(outcomes: Sequence[Outcome], console: Console) -> None:
    """Show each model on many Macs."""
    for outcome in outcomes:
        if outcome.problem is not None:
            console.error(outcome.problem)
            continue
        first = outcome.found[0]
        console.note(f"{_model(first)}: {_question(first)}")
        _print(_MAC_COLUMNS, [_mac_row(each) for each in outcome.found], console)
    found = [each for outcome in outcomes for each in outcome.found]
    for line in _remarks(found):
        console.note(line)
    _note_quantizing(outcomes, console)


def _note_quantizing(outcomes: Sequence[Outcome], console: Console) -> None:
    """Say below a table what quantizing each model would take."""
    for outcome in outcomes:
        if outcome.quantizing is not None:
            told = "; ".join(quantizing_words(outcome.quantizing).values())
            console.note(f"{printable(outcome.name, _LONGEST)}: {told}")


def _print(columns: Sequence[Column], rows: Sequence[Row], console: Console) -> None:
    """Print a table; a pipe gets remarks in a column of their own."""
    if console.width is None and any(row.below for row in rows):
        columns = (*columns, _NOTE)
        rows = [Row(cells=(*row.cells, row.below or "-")) for row in rows]
    lines = lay_out(columns, rows, width=console.width, styled=console.styled)
    console.text("\n".join(lines) + "\n")


def _model_row(outcome: Outcome) -> Row:
    name = printable(outcome.name, _LONGEST)
    if outcome.problem is not None:
        below = printable(outcome.problem.message, _LONGEST)
        return Row(cells=(name, *["-"] * (len(_MODEL_COLUMNS) - 1)), below=below)
    found = outcome.found[0]
    cells = (
        name,
        format_bytes(found.memory.weights_bytes),
        format_bytes(found.memory.kv_bytes),
        format_bytes(found.memory.total_bytes),
        *_answers(found),
    )
    return Row(cells=cells, below="" if found.fits else verdict(found))


def _mac_row(found: Assessment) -> Row:
    sku, predicted = found.host.sku, found.prediction
    prefill = predicted and predicted.prefill
    ttft = predicted and predicted.ttft
    cells = (
        found.host.name + ("*" if sku and "bandwidth" in sku.unconfirmed else ""),
        format_bytes(found.host.usable_bytes),
        format_bytes(found.needed_bytes),
        *_answers(found),
        f"~{_rough(prefill)}" if prefill else "-",
        f"~{_rough_seconds(ttft)}" if ttft else "-",
    )
    return Row(cells=cells)


def _answers(found: Assessment) -> tuple[str, str, str]:
    """Return whether it fits, how long it may get, and how fast it decodes."""
    fits = "yes" if found.fits else "no"
    most = longest(found).removesuffix(" tokens") if found.max_context else "-"
    if found.decode is None:
        return fits, most, "-"
    if found.measured is not None and found.measured.decode is not None:
        return fits, most, format_number(found.decode)
    return fits, most, f"~{_rough(found.decode)}"


def _remarks(found: Sequence[Assessment]) -> list[str]:
    """Return what the signs in a table mean, and what is not exact."""
    lines = []
    if any(each.decode is not None for each in found):
        lines.append("Speeds in tokens/s of all rows; those with ~ are predicted.")
    macs = [each.host.sku for each in found if each.host.sku]
    if any("bandwidth" in mac.unconfirmed for mac in macs):
        lines.append("* No text of Apple's gives this bandwidth.")
    if macs:
        lines.append(
            f"Figures of Macs as of {data_checked_on()}; FP16 is nobody's official figure."
        )
    notes = dict.fromkeys(
        f"{printable(each.candidate.model_id, _LONGEST)}: {note}"
        for each in found
        for note in each.notes
    )
    return [*lines, *notes]


def _question(found: Assessment) -> str:
    rows = f"{found.rows} rows of " if found.rows > 1 else ""
    bits = f", {found.kv_bits}-bit KV" if found.kv_bits else ""
    return f"{rows}{found.context:,} tokens{bits}"


def _model(found: Assessment) -> str:
    weights, shape = found.candidate.weights, found.candidate.shape
    active = weights.active_parameters
    name = printable(found.candidate.model_id, _LONGEST)
    parameters = f"{format_count(weights.parameters)} parameters"
    if weights.chosen_share < 1:
        parameters += f", {format_count(active)} of them a token"
    return f"{name}, {printable(shape.model_type)}, {parameters}"


def _machine(found: Assessment) -> str:
    host = found.host
    usable, memory = format_bytes(host.usable_bytes), format_bytes(host.memory_bytes)
    whole = "" if host.sku else f" of {memory}"  # a Mac's name says its memory
    return f"{printable(host.name)}, {usable}{whole} usable"


def _weights(found: Assessment) -> str:
    took = f"{format_bytes(found.memory.weights_bytes)} {_STORAGE[found.storage]}"
    if found.storage == "stored":
        return took
    return f"{took} ({format_bytes(found.candidate.weights.stored_bytes)} as stored)"


def _kv(found: Assessment) -> str:
    layers = [f"{count} {_KINDS[kind]}" for kind, count in found.candidate.shape.kinds().items()]
    number = f"{found.kv_bits}-bit" if found.kv_bits else f"{8 * found.kv_float_bytes}-bit"
    each = f"{format_bytes(found.kv_token_bytes)} a token more"
    return f"{format_bytes(found.memory.kv_bytes)} {number}, {each}; layers: {', '.join(layers)}"


def _decode(found: Assessment) -> str:
    measured = found.measured
    if measured is not None and measured.decode is not None:
        rate = f"{format_number(measured.decode)} tokens/s"
        return f"{rate}{_each_row(found)}, measured {measured.day}"
    if found.prediction is None:
        return f"unknown: there is no bandwidth for this machine{_bench(found)}"
    return f"about {_rough(found.prediction.decode)} tokens/s{_each_row(found)}, predicted"


def _batching(found: Assessment) -> str:
    if found.batching is None:
        return "not tried"
    if found.batching.lane == "batched":
        return "requests run together"
    return f"one request at a time: {printable(found.batching.serial_reason or '-', 500)}"


def _each_row(found: Assessment) -> str:
    if found.rows == 1 or found.decode is None:
        return ""
    return f" ({_rough(found.decode / found.rows)} each row)"


def _bench(found: Assessment) -> str:
    here = found.host.machine is not None and found.candidate.folder is not None
    return "; `mlxbun bench` measures it" if here else ""


def _prefill(found: Assessment) -> str | None:
    measured, predicted = found.measured, found.prediction
    if measured is not None and measured.prefill is not None:
        rate = f"{format_number(measured.prefill)} tokens/s"
        return f"{rate}, measured {measured.day} over {measured.prefill_tokens:,} tokens"
    if predicted is None or predicted.prefill is None:
        return None
    return f"about {_rough(predicted.prefill)} tokens/s, predicted"


def _ttft(found: Assessment) -> str | None:
    asked = f"for a prompt of {found.context:,} tokens"
    measured, predicted = found.measured, found.prediction
    if measured is not None and measured.ttft is not None:
        return f"about {format_seconds(measured.ttft)} {asked}, at the measured rates"
    if predicted is None or predicted.ttft is None:
        return None
    return f"about {_rough_seconds(predicted.ttft)} {asked}, predicted"


def _rough(rate: float) -> str:
    """Return a rate with the two digits that a prediction is worth."""
    return format_number(float(f"{rate:.2g}"))


def _rough_seconds(seconds: float) -> str:
    return format_seconds(float(f"{seconds:.2g}"))
