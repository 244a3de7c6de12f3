"""From a request's fields to the form that its answer must have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.serve.wire.openai.nesting import check_nesting
from core.engine.request import GrammarSpec
from core.errors import BadRequest

if TYPE_CHECKING:
    from commands.serve.wire.openai.schema import ResponseFormat, SamplingFields


def decode_form(call: SamplingFields) -> GrammarSpec | None:
    """Return the form, or None if it is free.

    Of several fields one wins: `guided_grammar`, then `response_format`, then
    `structured_outputs`, `guided_regex`, `guided_choice`.

    Raises:
        BadRequest: a JSON Schema is missing or nested too deeply.
    """
    format_ = _from_response_format(call.response_format)
    if call.guided_grammar is not None:
        return GrammarSpec(kind="ebnf", source=call.guided_grammar)
    if format_ is not None:
        return format_
    if call.structured_outputs is not None:
        check_nesting(call.structured_outputs, "structured_outputs")
        return GrammarSpec(kind="json_schema", source=call.structured_outputs)
    if call.guided_regex is not None:
        return GrammarSpec(kind="regex", source=call.guided_regex)
    if call.guided_choice is not None:
        return GrammarSpec(kind="choice", source=tuple(call.guided_choice))
    return None


def _from_response_format(wanted: ResponseFormat | None) -> GrammarSpec | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return GrammarSpec(kind="json")
    form = wanted.json_schema
    if form is None or form.schema is None:
        raise BadRequest(
            "response_format.json_schema.schema is required when the type is json_schema.",
            field="response_format",
        )
    check_nesting(form.schema, "response_format")
    return GrammarSpec(
        kind="json_schema", source=form.schema, any_whitespace=form.any_whitespace is not False
    )
