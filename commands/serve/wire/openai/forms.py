"""From a request's fields to the form that its answer must have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from commands.serve.wire.openai.nesting import check_nesting
from core.engine.request import GrammarKind, GrammarSpec
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
        return GrammarSpec(kind="ebnf", source=call.guided_grammar, field="guided_grammar")
    if format_ is not None:
        return format_
    if call.structured_outputs is not None:
        return _from_structured_outputs(call.structured_outputs)
    if call.guided_regex is not None:
        return GrammarSpec(kind="regex", source=call.guided_regex, field="guided_regex")
    if call.guided_choice is not None:
        return GrammarSpec(kind="choice", source=tuple(call.guided_choice), field="guided_choice")
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
        kind="json_schema",
        source=form.schema,
        any_whitespace=form.any_whitespace is not False,
        field="response_format.json_schema.schema",
    )


def _from_structured_outputs(wanted: dict[str, Any]) -> GrammarSpec:
    """Read a bare schema, or vLLM's object, which names the form with one of its own words."""
    check_nesting(wanted, "structured_outputs")
    named = [name for name in wanted if name in _NAMED]
    if len(named) != 1 or set(wanted) - set(named) - _BESIDE:
        return GrammarSpec(kind="json_schema", source=wanted, field="structured_outputs")
    name = named[0]
    kind, is_right, what = _NAMED[name]
    if not is_right(wanted[name]):
        raise BadRequest(f"structured_outputs.{name} must be {what}.", field="structured_outputs")
    source = wanted[name]
    return GrammarSpec(
        kind=kind,
        source=None if kind == "json" else tuple(source) if kind == "choice" else source,
        any_whitespace=not wanted.get("disable_any_whitespace"),
        field=f"structured_outputs.{name}",
    )


def _is_choice(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# None of these words has a meaning in JSON Schema.
_NAMED: dict[str, tuple[GrammarKind, Callable[[Any], bool], str]] = {
    "json": ("json_schema", lambda value: isinstance(value, dict), "a JSON Schema"),
    "json_object": ("json", lambda value: value is True, "true"),
    "regex": ("regex", _is_text, "a text"),
    "choice": ("choice", _is_choice, "a list of at least one text"),
    "grammar": ("ebnf", _is_text, "a text"),
}
_BESIDE = frozenset(("disable_any_whitespace", "disable_fallback"))
