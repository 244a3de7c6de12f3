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
        return compiler.compile_grammar(parse_text(xgrammar, plan.text))
    wanted = json.loads(plan.calls)
    if plan.text:
        wanted = {"type": "or", "elements": [wanted, {"type": "grammar", "grammar": plan.text}]}
    return compiler.compile_structural_tag({"type": "structural_tag", "format": wanted})


def parse_text(xgrammar: Any, text: str) -> Any:
    """Return a parsed grammar; no tokens are needed for that.

    Raises:
        Exception: what xgrammar raises on text that it does not understand.
    """
    return xgrammar.Grammar.from_ebnf(text)


def new_mask(vocabulary: int) -> np.ndarray[Any, Any]:
    """Return a mask that allows everything. Shape: int32 [1, ceil(V / 32)]."""
    return np.full((1, math.ceil(vocabulary / 32)), -1, np.int32)


def bits_of(ids: Sequence[int], vocabulary: int) -> np.ndarray[Any, Any]:
    """Return a mask of some tokens. Shape: int32 [ceil(V / 32)]."""
    flags = np.zeros(math.ceil(vocabulary / 32) * 32, np.uint8)
    flags[[number for number in ids if number < vocabulary]] = 1
    return np.packbits(flags, bitorder="little").view("<i4").astype(np.int32)
