"""`mlxbun train --dry-run`: the configuration in full, the data, and what it would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.train.config import config_as_json
from core.train.data import sequences
from core.train.estimate import Estimate, estimate
from core.train.run import Prepared, reference_of
from core.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands._shared.console import Console
    from core.engine.tokenizer import Tokenizer
    from core.train.encode import Encoded

_LEARNED, _READ, _END = "\x1b[32m", "\x1b[2m", "\x1b[0m"
_SHOWN_ROWS = 20  # broken ones
_SHOWN_TOKENS = 400  # of the first example
_LED_BY = 100  # of them, before what is learned


def show_dry_run(prepared: Prepared, console: Console) -> None:
    """Show what a training would be."""
    found = estimate(prepared.config, prepared.trained, prepared.data)
    if console.json_mode:
        console.event(dry_run_line(prepared, found))
        return
    console.record(config_as_json(prepared.config))
    console.text("\n")
    console.record(dict(_facts(prepared, found)))
    for name, part, mask in _first_example(prepared):
        told = marked(part, mask, prepared.trained.tokenizer, styled=console.styled)
        console.text(f"\n{name}\n{told}\n")
    broken = prepared.data.broken
    if broken:
        console.text("\n")
        rows = [{"place": f"{row.file}:{row.line}", "why": row.reason} for row in broken]
        console.table(rows[:_SHOWN_ROWS], {"place": "LEFT OUT", "why": "WHY"})
        if len(broken) > _SHOWN_ROWS:
            console.text(f"and {len(broken) - _SHOWN_ROWS} more\n")


def dry_run_line(prepared: Prepared, found: Estimate | None) -> dict[str, Any]:
    """Return all of it as one line of NDJSON."""
    data, trained = prepared.data, prepared.trained
    return {
        "event": "plan",
        "model": prepared.base.model_id,
        "config": config_as_json(prepared.config),
        "format": data.format,
        "n_train": len(data.train),
        "n_valid": len(data.valid),
        "train_tokens": data.train_tokens,
        "cut": data.cut,
        "skipped": [
            {"file": row.file, "line": row.line, "reason": row.reason} for row in data.broken
        ],
        "trainable_parameters": trained.trainable_parameters,
        "parameters": trained.parameters,
        "loaded_as": trained.loaded_as,
        "reference": reference_of(prepared.config),
        "memory_bytes": found.memory_bytes if found else None,
        "budget_bytes": trained.budget_bytes,
        "seconds": found.seconds if found else None,
        "first_example": [
            {"name": name, "tokens": list(part.tokens), "learned": list(mask)}
            for name, part, mask in _first_example(prepared)
        ],
    }


def marked(part: Encoded, mask: bytes, tokenizer: Tokenizer, *, styled: bool) -> str:
    """Return a sequence as text that shows which of it is learned: in green, or in brackets.

    Args:
        part: the sequence.
        mask: for each of its tokens 1 where the loss counts it, else 0.
        tokenizer: of the model.
        styled: in colours.
    """
    shown: list[str] = []
    begin = _first_shown(mask)
    for tokens, now in _runs(part.tokens[begin:], mask[begin:]):
        text = _readable(tokenizer, tokens)
        if styled:
            shown.append(f"{_LEARNED if now else _READ}{text}{_END}")
        else:
            shown.append(f"⟦{text}⟧" if now else text)
    rest = len(part.tokens) - begin - _SHOWN_TOKENS
    before = f"{begin} tokens before ... " if begin else ""
    return before + "".join(shown) + (f" ... and {rest} tokens more" if rest > 0 else "")


def _first_shown(mask: bytes) -> int:
    """Return where to begin, so that some of what is learned is among the tokens shown."""
    learned = mask.find(1)
    return 0 if learned < _SHOWN_TOKENS - _LED_BY else learned - _LED_BY


def _runs(ids: tuple[int, ...], mask: bytes) -> Iterator[tuple[list[int], bool]]:
    """Yield stretches of tokens that are learned, or are not."""
    run: list[int] = []
    now = bool(mask[0])
    for token, counted in zip(ids[:_SHOWN_TOKENS], mask, strict=False):
        if run and bool(counted) != now:
            yield run, now
            run = []
        now = bool(counted)
        run.append(token)
    yield run, now


def _readable(tokenizer: Tokenizer, tokens: list[int]) -> str:
    """Return tokens as text, control marks included, without what a terminal would obey."""
    marks = [tokenizer.piece(token) for token in set(tokens)]
    text = tokenizer.decoder(marks)(tokens)
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def _first_example(prepared: Prepared) -> Iterator[tuple[str, Encoded, bytes]]:
    """Yield the sequences of the first row: a name, the tokens, and which the loss counts.

    Of a rejected answer ORPO counts the odds alone, which are those of the response.
    """
    config = prepared.config
    names = ("chosen", "rejected") if config.pairs else ("first example",)
    for name, part in zip(names, sequences(prepared.data.train[0]), strict=True):
        whole = config.method != "dpo" and not config.response_only and name != "rejected"
        yield name, part, part.everything if whole else part.response


def _facts(prepared: Prepared, found: Estimate | None) -> Iterator[tuple[str, Any]]:
    data, trained = prepared.data, prepared.trained
    share = trained.trainable_parameters / trained.parameters
    yield "model", prepared.base.model_id
    yield "weights", f"{format_bytes(trained.weights_bytes)}, {trained.loaded_as}"
    yield "format", data.format
    yield "training rows", f"{len(data.train)} ({data.train_tokens} tokens)"
    yield "validation rows", len(data.valid)
    yield "rows left out", len(data.broken)
    yield "rows cut", data.cut
    trained_count = format_count(trained.trainable_parameters)
    yield "trained", f"{trained_count} of {format_count(trained.parameters)} ({share:.2%})"
    if reference := reference_of(prepared.config):
        yield "reference", reference
    if found is None:
        yield "memory and time", "not known for this architecture"
        return
    fits = "" if found.fits else " (does not fit: see --grad-checkpoint and --segment-size)"
    memory = f"about {format_bytes(found.memory_bytes)} of {format_bytes(found.budget_bytes)}"
    yield "memory", memory + fits
    yield "time", f"about {format_seconds(found.seconds)}"
