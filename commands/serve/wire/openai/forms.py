"""From a request's fields to the form that its answer must have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from commands.serve.wire.openai.nesting import check_nesting
from core.engine.request import GrammarKind, GrammarSpec
from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands.serve.wire.openai.schema import ResponseFormat, SamplingFields

# Other servers' names. Between the fields that are not among them, the order below decides.
_ALIASES = frozenset(("guided_json", "json_schema", "grammar", "format"))


def decode_form(call: SamplingFields) -> GrammarSpec | None:
    """Return the form, or None if it is free.

    Of several fields one wins: `guided_grammar`, then `response_format`, then
    `structured_outputs`, `guided_regex`, `guided_choice`. The names that other servers have for
    them must not ask for anything else; a schema beside `json_object` makes it stricter.

    Raises:
        BadRequest: a JSON Schema is missing, malformed or nested too deeply, or two fields
            contradict each other.
    """
    found = list(_forms(call))
    for alias, form in found:
        if alias in _ALIASES:
            _check_agreement(alias, form, found)
    if not found:
        return None
    first = found[0][1]
    if first.kind != "json":
        return first
    schemas = (form for name, form in found if name in _ALIASES and form.kind == "json_schema")
    return next(schemas, first)


def _forms(call: SamplingFields) -> Iterator[tuple[str, GrammarSpec]]:
    """Yield every requested form and its field, in order of precedence."""
    format_ = _from_response_format(call.response_format)
    if call.guided_grammar is not None:
        yield (
            "guided_grammar",
            GrammarSpec(kind="ebnf", source=call.guided_grammar, field="guided_grammar"),
        )
    if format_ is not None:
        yield "response_format", format_
    if call.structured_outputs is not None:
        yield "structured_outputs", _from_structured_outputs(call.structured_outputs)
    if call.guided_regex is not None:
        yield (
            "guided_regex",
            GrammarSpec(kind="regex", source=call.guided_regex, field="guided_regex"),
        )
    if call.guided_choice is not None:
        yield (
            "guided_choice",
            GrammarSpec(kind="choice", source=tuple(call.guided_choice), field="guided_choice"),
        )
    yield from _aliases(call)


def _aliases(call: SamplingFields) -> Iterator[tuple[str, GrammarSpec]]:
    """Yield the same for the fields with other servers' names."""
    if call.guided_json is not None:
        yield "guided_json", _schema(call.guided_json, "guided_json")
    if call.json_schema is not None:
        yield "json_schema", _schema(call.json_schema, "json_schema")
    if call.grammar:  # llama.cpp's clients send an empty one for none
        yield "grammar", GrammarSpec(kind="ebnf", source=call.grammar, field="grammar")
    if call.format == "json":
        yield "format", GrammarSpec(kind="json", field="format")
    elif call.format:
        yield "format", _schema(call.format, "format")


def _check_agreement(alias: str, form: GrammarSpec, found: list[tuple[str, GrammarSpec]]) -> None:
    for name, other in found:
        same = (form.kind, form.source) == (other.kind, other.source)
        if not same and {form.kind, other.kind} != {"json", "json_schema"}:
            raise BadRequest(
                f"{alias} and {name} ask for different forms. Send one of them.", field=alias
            )


def _schema(value: dict[str, Any] | str, field: str) -> GrammarSpec:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            value = ""
    if not isinstance(value, dict):
        word = '"json" or ' if field == "format" else ""
        raise BadRequest(f"{field} must be {word}a JSON Schema.", field=field)
    check_nesting(value, field)
    return GrammarSpec(kind="json_schema", source=value, field=field)


def _from_response_format(wanted: ResponseFormat | None) -> GrammarSpec | None:
    if wanted is None:
        return None
    check_nesting(wanted.schema, "response_format")
    check_nesting(wanted.json_schema and wanted.json_schema.schema, "response_format")
    schema = _response_schema(wanted)
    if wanted.type == "text":
        return None
    form = wanted.json_schema
    if schema is None:
        if wanted.type == "json_object":
            return GrammarSpec(kind="json")
        raise BadRequest(
            "response_format.json_schema.schema is required when the type is json_schema.",
            field="response_format",
        )
    compact = form is not None and form.any_whitespace is False
    nested = form is not None and form.schema is not None
    return GrammarSpec(
        kind="json_schema",
        source=schema,
        any_whitespace=not compact,
        field=f"response_format.{'json_schema.' if nested else ''}schema",
    )


def _response_schema(wanted: ResponseFormat) -> dict[str, Any] | None:
    """Return the schema, which stands in one of two places."""
    form = wanted.json_schema.schema if wanted.json_schema else None
    if wanted.type == "text" and (form or wanted.schema):
        problem = "must not have a schema when the type is text"
    elif None not in (form, wanted.schema) and form != wanted.schema:
        problem = "has two different schemas"
    else:
        return form if form is not None else wanted.schema
    raise BadRequest(f"response_format {problem}.", field="response_format")


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
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# None of these words has a meaning in JSON Schema.
_NAMED: dict[str, tuple[GrammarKind, Callable[[Any], bool], str]] = {
    "json": ("json_schema", lambda value: isinstance(value, dict), "a JSON Schema"),
    "json_object": ("json", lambda value: value is True, "true"),
    "regex": ("regex", _is_text, "a text"),
    "choice": ("choice", _is_choice, "a list of texts"),
    "grammar": ("ebnf", _is_text, "a text"),
}
_BESIDE = frozenset(("disable_any_whitespace", "disable_fallback"))
