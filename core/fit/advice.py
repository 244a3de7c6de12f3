"""What to do about a model that does not fit, in a few words. The first that helps is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from core.fit.config import NO_LIMIT
from core.fit.kv import GROWTH_TOKENS
from core.units import format_bytes, format_count

if TYPE_CHECKING:
    from core.fit.assess import Assessment, Assessor, Question

# Fewer tokens are no use to a conversation.
_LEAST_CONTEXT = 2 * GROWTH_TOKENS
# Fewer bits than this ruin a model; more than 8 are never needed.
_FEWEST_BITS = 3.0
# What a 4-bit quantization takes of each weight, scales included.
_USUAL_BITS = 4.5


def advise(assessor: Assessor, found: Assessment, question: Question) -> str:
    """Return how to make it fit, as what follows "use"."""
    if found.context > found.window:
        return f"--ctx {found.window}"
    return (
        _fewer_rows(assessor, found, question)
        or _fewer_tokens(found)
        or _packed(assessor, found, question)
        or _fewer_bits(found)
        or _smaller(found)
    )


def verdict(found: Assessment) -> str:
    """Return the answer in one line."""
    rows = f"{found.rows} x " if found.rows > 1 else ""
    asked = f"{rows}{found.context:,} tokens"
    if found.fits:
        total, usable = found.memory.total_bytes, found.host.usable_bytes
        each = " each" if rows else ""
        shares = f"{format_bytes(total)} of {format_bytes(usable)} usable"
        return f"fits: {shares} at {asked}; up to {longest(found)}{each}"
    use = f"; use {found.advice}" if found.advice else ""
    if found.context > found.window:
        made = f"the model was made for {found.window:,}"
        return f"does not fit: {found.context:,} tokens are asked for, {made}{use}"
    need, have = _told_apart(found.needed_bytes, found.host.usable_bytes)
    return f"does not fit: needs {need} at {asked}, has {have}{use}"


def longest(found: Assessment) -> str:
    """Return the most tokens, for people."""
    return "any length" if found.max_context >= NO_LIMIT else f"{found.max_context:,} tokens"


def _fewer_rows(assessor: Assessor, found: Assessment, question: Question) -> str | None:
    """Return the most rows that fit, where one does."""
    low, high = 0, found.rows
    while high - low > 1:
        middle = (low + high) // 2
        needed = assessor.needed_bytes(found.host, replace(question, rows=middle))
        low, high = (middle, high) if needed <= found.host.usable_bytes else (low, middle)
    return f"--batch {low}" if low else None


def _fewer_tokens(found: Assessment) -> str | None:
    if found.max_context < _LEAST_CONTEXT:
        return None
    return f"--ctx {found.max_context}"


def _packed(assessor: Assessor, found: Assessment, question: Question) -> str | None:
    """Return to leave the weights packed, where the user had them unpacked."""
    plan = found.host.plan
    if found.storage != "unpacked" or plan is None or plan.dequantize != "on":
        return None
    packed = replace(found.host, plan=replace(plan, dequantize="off"))
    fits = assessor.needed_bytes(packed, question) <= packed.usable_bytes
    return "--dequantize off" if fits else None


def _fewer_bits(found: Assessment) -> str | None:
    """Return how many bits a weight may have, where that leaves a model of use."""
    weights, parameters = found.candidate.weights, found.candidate.weights.parameters
    room = found.host.usable_bytes - (found.needed_bytes - _weights_counted(found))
    bits = 8 * room / parameters if parameters else 0.0
    own = 8 * weights.stored_bytes / parameters if parameters else 0.0
    if not _FEWEST_BITS <= bits < own:
        return None
    return f"a quantization of at most {bits:.1f} bits a weight (this one has {own:.1f})"


def _weights_counted(found: Assessment) -> int:
    """Return which part of what is needed are the weights."""
    files = found.candidate.weights.files_bytes
    return files if found.needed_bytes == files else found.memory.weights_bytes


def _smaller(found: Assessment) -> str:
    most = 8 * found.host.usable_bytes / _USUAL_BITS
    return f"a smaller model: at 4 bits, fewer than {format_count(most)} parameters fit"


def _told_apart(needed: int, usable: int) -> tuple[str, str]:
    """Return two amounts with as many digits as it takes to see which is larger."""
    need, have = format_bytes(needed), format_bytes(usable)
    if need != have:
        return need, have
    return f"{needed / 1e6:,.1f} MB", f"{usable / 1e6:,.1f} MB"
