"""Compile plans with xgrammar, in this process or in the one that tries them first.

Letters: V vocabulary.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.engine.grammar.plan import Plan

_COMPACT = (",", ":")


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What a grammar must know of a model's tokens."""

    texts: tuple[bytes, ...]
    """V byte strings; empty: a token that no text contains."""
    stop_ids: tuple[int, ...]
    """Tokens that end an answer, below V; ascending."""


def make_compiler(xgrammar: Any, tokens: Tokens) -> Any:
    """Return a compiler. It keeps nothing: what it made is kept by us."""
    info = xgrammar.TokenizerInfo(
        list(tokens.texts),
        xgrammar.VocabType.RAW,
        vocab_size=len(tokens.texts),
        stop_token_ids=list(tokens.stop_ids),
    )
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


def compile_plan(xgrammar: Any, compiler: Any, plan: Plan) -> Any:
    """Return the compiled grammar.

    Raises:
        Exception: what xgrammar raises on a form that it does not understand.
    """
    if not plan.calls:
        return compiler.compile_grammar(parse_form(xgrammar, plan))
    wanted = json.loads(plan.calls)
    if plan.kind is not None:
        form = {"type": "grammar", "grammar": str(parse_form(xgrammar, plan))}
        wanted = {"type": "or", "elements": [wanted, form]}
    return compiler.compile_structural_tag({"type": "structural_tag", "format": wanted})


def parse_form(xgrammar: Any, plan: Plan) -> Any:
    """Return the grammar of a plan's form; no tokens are needed for that.

    Raises:
        Exception: what xgrammar raises on a form that it does not understand.
    """
    grammar = xgrammar.Grammar
    if plan.kind == "json":
        return grammar.builtin_json_grammar()
    if plan.kind == "regex":
        return grammar.from_regex(plan.text)
    if plan.kind == "json_schema":
        return grammar.from_json_schema(
            plan.text,
            any_whitespace=plan.any_whitespace,
            separators=None if plan.any_whitespace else _COMPACT,
            strict_mode=plan.strict,
        )
    return grammar.from_ebnf(plan.text)


def new_mask(vocabulary: int) -> np.ndarray[Any, Any]:
    """Return a mask that allows everything. Shape: int32 [1, ceil(V / 32)]."""
    return np.full((1, math.ceil(vocabulary / 32)), -1, np.int32)


def bits_of(ids: Sequence[int], vocabulary: int) -> np.ndarray[Any, Any]:
    """Return a mask of some tokens. Shape: int32 [ceil(V / 32)]."""
    flags = np.zeros(math.ceil(vocabulary / 32) * 32, np.uint8)
    flags[[number for number in ids if number < vocabulary]] = 1
    return np.packbits(flags, bitorder="little").view("<i4").astype(np.int32)
