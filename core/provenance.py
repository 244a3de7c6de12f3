"""Where a model, an adapter or a data set comes from: `mlxbun.json` beside its files.

Whoever makes one writes it (`write_provenance`), whoever shows or uploads one reads it
(`read_provenance`). Its form is documented in docs/upload.md. It is foreign input when it is read:
a folder may come from anywhere.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.errors import BadModelFiles
from core.paths import atomic_write
from core.registry.files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "mlxbun.json"
SCHEMA = 1
RELATIONS = ("quantized", "adapter", "finetune", "merge")
"""What a model can be to its base; the Hub's words for `base_model_relation`."""

Scalar = str | int | float | bool
Value = Scalar | tuple[Scalar, ...]

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.\-]{0,95}/[A-Za-z0-9][\w.\-]{0,95}", re.ASCII)
_LONGEST = 2000  # characters of a text
_MOST = 200  # entries of a list or a recipe


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A repository that something was made from."""

    repo_id: str
    """`org/name` on the Hub."""
    revision: str | None = None
    """Its commit, or None where that is not known."""


@dataclass(frozen=True, kw_only=True)
class EvalFigure:
    """One measured result."""

    name: str
    """What was measured: `perplexity`."""
    value: float
    """The result; finite."""
    unit: str | None = None
    """`%`, `nats`; None: a bare number."""
    data: str | None = None
    """On what: a data set, a split. None: not told."""
    base_value: float | None = None
    """The same of the base model; None: not measured."""
    uniform_value: float | None = None
    """The same of a uniform quantization of this size; None: not measured."""
    error: float | None = None
    """Standard error of `value`; None: not known."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is known of the making of one folder. What is not known is None or empty."""

    base: Origin | None = None
    """The model that it was made from."""
    relation: str | None = None
    """What it is to that model: one of `RELATIONS`."""
    license: str | None = None
    """The license's name as the Hub knows it: `apache-2.0`."""
    language: tuple[str, ...] = ()
    """Language codes: `en`."""
    datasets: tuple[Origin, ...] = ()
    """Data sets on the Hub that went into it."""
    recipe: Mapping[str, Value] = field(default_factory=dict)
    """How it was made: names in plain words, to values."""
    figures: tuple[EvalFigure, ...] = ()
    """What was measured of it."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Programs that made it, to their versions: `mlxbun`, `mlx-lm`."""


def read_provenance(folder: Path) -> Provenance | None:
    """Return what a folder's `mlxbun.json` says; None: there is none.

    Raises:
        BadModelFiles: it cannot be read, or is not of the form that is documented.
    """
    file = folder / FILE
    try:
        content = read_json(file)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _broken(file, problem.strerror or str(problem)) from None
    if content is None:
        raise _broken(file, "it is not a JSON object")
    try:
        return _decode(content)
    except _FormError as problem:
        raise _broken(file, str(problem)) from None


def write_provenance(folder: Path, provenance: Provenance) -> None:
    """Write a folder's `mlxbun.json`, whole or not at all.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    with atomic_write(folder / FILE) as file:
        text = json.dumps(encode(provenance), indent=2, ensure_ascii=False, allow_nan=False)
        file.write(text.encode("utf-8") + b"\n")


def encode(provenance: Provenance) -> dict[str, Any]:
    """Return it as the JSON object of `mlxbun.json`; what is not known is left out."""
    plain = {
        "base_model": _origin_out(provenance.base) if provenance.base else None,
        "relation": provenance.relation,
        "license": provenance.license,
        "language": list(provenance.language),
        "datasets": [_origin_out(origin) for origin in provenance.datasets],
        "recipe": {name: _value_out(value) for name, value in provenance.recipe.items()},
        "figures": [_known(vars(figure)) for figure in provenance.figures],
        "versions": dict(provenance.versions),
    }
    return {"schema": SCHEMA, **_known(plain)}


def is_repo_id(text: str) -> bool:
    """Return whether a text can be the name of a repository: `org/name`."""
    return _REPO_ID.fullmatch(text) is not None and "--" not in text and ".." not in text


class _FormError(Exception):
    """The object is not of the form; the text is why, as a clause."""


def _decode(content: dict[str, Any]) -> Provenance:
    schema = content.get("schema")
    if type(schema) is not int or schema < 1:
        raise _FormError("it names no schema")
    if schema > SCHEMA:
        raise _FormError("a newer mlxbun has written it")
    base, relation = content.get("base_model"), _text(content, "relation")
    if relation is not None and relation not in RELATIONS:
        raise _FormError(f"its relation is none of {', '.join(RELATIONS)}")
    return Provenance(
        base=None if base is None else _origin(base),
        relation=relation,
        license=_text(content, "license"),
        language=tuple(_word(word, "language") for word in _list(content, "language")),
        datasets=tuple(_origin(entry) for entry in _list(content, "datasets")),
        recipe={
            _word(name, "recipe"): _value(value)
            for name, value in _mapping(content, "recipe").items()
            if value is not None
        },
        figures=tuple(_figure(entry) for entry in _list(content, "figures")),
        versions={
            _word(name, "versions"): _word(version, "versions")
            for name, version in _mapping(content, "versions").items()
        },
    )


def _origin(entry: Any) -> Origin:
    if not isinstance(entry, dict):
        raise _FormError("an origin in it is not a JSON object")
    repo_id, revision = entry.get("id"), _text(entry, "revision")
    if not isinstance(repo_id, str) or not is_repo_id(repo_id):
        raise _FormError("an origin in it has no id of the form org/name")
    return Origin(repo_id=repo_id, revision=revision)


def _figure(entry: Any) -> EvalFigure:
    if not isinstance(entry, dict):
        raise _FormError("a figure in it is not a JSON object")
    name, value = _text(entry, "name"), _number(entry, "value")
    if name is None or value is None:
        raise _FormError("a figure in it has no name or no value")
    return EvalFigure(
        name=name,
        value=value,
        unit=_text(entry, "unit"),
        data=_text(entry, "data"),
        base_value=_number(entry, "base_value"),
        uniform_value=_number(entry, "uniform_value"),
        error=_number(entry, "error"),
    )


def _number(entry: Mapping[str, Any], key: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or abs(value) > 1e300 or not math.isfinite(value):
        raise _FormError(f"its {key} is not a number")
    return float(value)


def _text(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    return None if value is None else _word(value, key)


def _word(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value or len(value) > _LONGEST:
        raise _FormError(f"its {where} holds something else than a text")
    return value


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    value = content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > _MOST:
        raise _FormError(f"its {key} is not a list, or too long")
    return value


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > _MOST:
        raise _FormError(f"its {key} is not a JSON object, or too large")
    return value


def _value(value: Any) -> Value:
    """Return a value of a recipe: a scalar, or a list of scalars."""
    if isinstance(value, list) and len(value) <= _MOST:
        return tuple(_scalar(item) for item in value)
    return _scalar(value)


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str) and len(value) <= _LONGEST:
        return value
    raise _FormError("a value in its recipe is neither text nor number, nor a list of them")


def _origin_out(origin: Origin) -> dict[str, Any]:
    return _known({"id": origin.repo_id, "revision": origin.revision})


def _value_out(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _known(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if value not in (None, [], {})}


def _broken(file: Path, reason: str) -> BadModelFiles:
    return BadModelFiles(
        f"{file} cannot be used: {reason}.",
        hint="Repair it (its form is in docs/upload.md), or take it away.",
    )
