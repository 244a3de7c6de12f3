"""Whether a grammar or a pattern can be parsed at all, before a model is loaded for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine.grammar.build import parse_text
from core.engine.grammar.library import has_xgrammar, load_xgrammar
from core.engine.grammar.plan import make_plan
from core.engine.grammar.screen import NotPossible
from core.engine.grammar.trial import tell

if TYPE_CHECKING:
    from core.engine.request import GrammarSpec

_PARSED = ("ebnf", "regex")  # what a schema allows is known without xgrammar


def check_form(spec: GrammarSpec) -> None:
    """Refuse a form that no tokenizer could be held to.

    Raises:
        NotPossible: it is malformed, or larger than is compiled.
    """
    plan = make_plan(spec, None)
    if spec.kind not in _PARSED or not has_xgrammar():
        return
    xgrammar = load_xgrammar()
    try:
        parse_text(xgrammar, plan.text)
    # Whatever xgrammar raises, the form does not parse.
    except Exception as refusal:
        raise NotPossible(tell(refusal)) from refusal
