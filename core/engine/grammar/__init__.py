"""Forms that answers must have: structured output and enforced tool calls, with xgrammar.

One `Grammars` per model; `prepare` runs in the caller's thread (it may take seconds), and what
`start` makes runs in the engine's, once per row:

    grammars = Grammars(tokenizer, vocabulary_size, eos_ids, enabled=environ MLXBUN_GRAMMAR != "0")
    form = grammars.prepare(request.grammar, calls=...)
    if isinstance(form, NotEnforced):  # degrade: `degrade.instruction`, `degrade.warning(form)`
    elif form.shortfall:  # enforced but for some keywords: `degrade.warning(form.shortfall)`
    constraint = form.start()  # for each row; `AfterReasoning` around it where a model reasons

A request is never refused for its form: what cannot be enforced says so in the answer.
"""

from core.engine.grammar.compiler import CompiledForm, Grammars
from core.engine.grammar.plan import NotEnforced
from core.engine.grammar.reasoning import AfterReasoning

__all__ = ["AfterReasoning", "CompiledForm", "Grammars", "NotEnforced"]
