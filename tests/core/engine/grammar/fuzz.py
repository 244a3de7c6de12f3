"""Whatever is sent as a form is compiled or refused. Run by `test_fuzz`, in a process of its own:

xgrammar is C++, and what it does not survive would end the process that asks.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.engine.grammar import CompiledForm, Grammars, NotEnforced, compiler
from core.engine.request import GrammarSpec
from tests.core.engine.grammar.conftest import EOS, VOCABULARY, Bytes

if TYPE_CHECKING:
    from collections.abc import Callable

KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "enum",
    "const", "$ref", "$defs", "additionalProperties", "minLength", "maxLength", "minItems",
    "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "pattern", "patternProperties", "propertyNames", "minProperties", "maxProperties", "format",
    "not", "uniqueItems", "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 40),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from((*TYPES, "#", "#/$defs/a", "date", "email", "uuid", "^a+$", "(", "[^a]{2,5}")),
)
names = st.one_of(st.sampled_from(KEYWORDS), st.sampled_from("ab"), st.text(max_size=3))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
schemas: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        st.booleans(),
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.one_of(st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES))),
                "properties": st.dictionaries(st.sampled_from("abc"), schemas, max_size=3),
                "required": st.lists(st.sampled_from("abc"), max_size=2),
                "items": schemas,
                "anyOf": st.lists(schemas, max_size=3),
                "allOf": st.lists(schemas, max_size=2),
                "$ref": st.sampled_from(("#", "#/properties/a", "#/items", "#/nowhere")),
                "minLength": st.integers(-1, 10**6),
                "minItems": st.integers(0, 10**4),
                "minimum": st.one_of(st.integers(), st.floats(allow_nan=False)),
                "maximum": st.one_of(st.integers(), st.floats(allow_nan=False)),
                "pattern": st.text("ab(|)*+?[]{2,}^$.\\dw", max_size=8),
                "enum": st.lists(scalars, max_size=4),
            },
        ),
    )
)
texts = st.one_of(
    st.text(max_size=30),
    st.text('root ::= "ab" | [a-z] () * + ? {2,5} \n\\', max_size=40).map("root ::= ".__add__),
)
patterns = st.text("ab(|)*+?[]{2,}^$.\\dws-", max_size=14)
forms = st.one_of(
    st.builds(GrammarSpec, kind=st.just("json_schema"), source=anything),
    st.builds(
        GrammarSpec,
        kind=st.just("json_schema"),
        source=schemas,
        any_whitespace=st.booleans(),
        strict=st.booleans(),
    ),
    st.builds(GrammarSpec, kind=st.just("ebnf"), source=texts),
    st.builds(GrammarSpec, kind=st.just("regex"), source=patterns),
    st.builds(
        GrammarSpec, kind=st.just("choice"), source=st.lists(st.text(max_size=6), max_size=4)
    ),
)


def check(grammars: Grammars) -> Callable[[GrammarSpec], None]:
    """Return what must hold of any form."""

    def one(spec: Any) -> None:
        form = grammars.prepare(spec)
        if isinstance(form, NotEnforced):
            assert form.reason.isascii()
            assert "\n" not in form.reason
            return
        assert isinstance(form, CompiledForm)
        row = form.start()
        for token in b'{"a": 1}':
            row.accept(token)
            assert not row.complete or row.lost is None

    return one


def main(examples: int) -> None:
    """Try so many forms."""
    faulthandler.enable()
    # What is tried in a process of its own cannot hurt; here this is that process.
    grammars = Grammars(Bytes(), VOCABULARY, [EOS])  # type: ignore[arg-type]
    tried = settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    with patch.object(compiler, "try_out"):
        tried(given(forms)(check(grammars)))()
    sys.stdout.write(json.dumps({"lost": grammars.lost}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
