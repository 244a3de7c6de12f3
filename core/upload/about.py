"""What is known about the things that are uploaded, collected for their card. Opens no network.

Known is what their own files say, what `mlxbun.json` says, and what the base model's card in the
Hugging Face cache says. Nothing else gets into a card.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from core.provenance import Origin, Provenance, read_provenance
from core.registry.adapters import CONFIG as ADAPTER_CONFIG
from core.registry.adapters import WEIGHTS as ADAPTER_WEIGHTS
from core.registry.facts import read_facts
from core.registry.files import printable, read_json
from core.registry.forms import kind_of_folder
from core.registry.weights import BrokenWeightsError, parse_header
from core.units import format_bytes, format_count
from core.upload.data_facts import DataFacts, read_data
from core.upload.origins import (
    NO_TERMS,
    Terms,
    name_of_data,
    origin_of,
    read_terms,
    tells_paths,
    terms_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.provenance import EvalFigure, Value
    from core.registry.storage import Quantization
    from core.upload.gather import LocalFile
    from core.upload.kinds import Kind

Rows = tuple[tuple[str, str], ...]

# What mlx-lm writes down of a training, in the order of a card, with its words for people.
_TRAINING = (
    ("num_layers", "layers trained"),
    ("optimizer", "optimizer"),
    ("learning_rate", "learning rate"),
    ("batch_size", "batch size"),
    ("grad_accumulation_steps", "gradient accumulation"),
    ("iters", "iterations"),
    ("max_seq_length", "longest sequence"),
    ("mask_prompt", "prompt masked"),
    ("seed", "seed"),
)
_LORA = (("rank", "rank"), ("scale", "scale"), ("alpha", "alpha"), ("dropout", "dropout"))
_TELLING = ("config.json", ADAPTER_CONFIG)
_METHODS = {"lora": "LoRA", "dora": "DoRA", "full": "all weights"}


@dataclass(frozen=True, kw_only=True)
class About:
    """What a card can tell. What is not known is None or empty."""

    kind: Kind
    """What it is about."""
    base: Origin | None = None
    """What it was made from."""
    relation: str | None = None
    """What it is to its base, in the Hub's words."""
    terms: Terms = NO_TERMS
    """License, languages and the Hub's word for what it does."""
    datasets: tuple[Origin, ...] = ()
    """Data sets that went into it."""
    method: str | None = None
    """The form of an adapter: `lora`, `dora`, `full`."""
    quantization: Quantization | None = None
    """How its weights are packed."""
    recipe: Rows = ()
    """How it was made: names and values for people."""
    sizes: Rows = ()
    """How large it is: names and values for people."""
    figures: tuple[EvalFigure, ...] = ()
    """What was measured of it."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Programs that made it, to their versions."""
    data: DataFacts | None = None
    """What a data set holds."""
    paths_in: tuple[str, ...] = ()
    """Files that tell where things lie on this machine, as `adapter_config.json (data, model)`."""


def learn(
    source: Path,
    kind: Kind,
    files: Sequence[LocalFile],
    *,
    hub_cache: Path,
    front: Mapping[str, Any],
) -> About:
    """Collect what is known.

    Args:
        source: the folder, or the file.
        kind: what it holds.
        files: what is uploaded of it.
        hub_cache: where cards of base models are looked for.
        front: the block of the card that lies in the folder; empty: there is none.

    Raises:
        BadModelFiles: `mlxbun.json` is not of its form.
    """
    folder = source if source.is_dir() else source.parent
    known = read_provenance(source) if source.is_dir() else None
    about = _LEARN[kind](folder, files)
    about = _with_front(about, front, folder)
    if known is not None:
        about = _with_provenance(about, known)
    if about.base is not None:
        about = replace(about, terms=_merged(about.terms, read_terms(about.base, hub_cache)))
    names = {file.name for file in files}
    return replace(
        about,
        sizes=(*about.sizes, ("files", f"{len(files)}, {format_bytes(_total(files))}")),
        paths_in=tuple(_paths_in(folder, names)) if source.is_dir() else (),
    )


def _model(folder: Path, files: Sequence[LocalFile]) -> About:
    facts = read_facts(folder)
    storage, abilities = facts.storage, facts.abilities
    sizes: list[tuple[str, str]] = []
    if storage.parameters:
        sizes.append(("parameters", f"{format_count(storage.parameters)} ({storage.parameters:,})"))
    if storage.weights_bytes:
        sizes.append(("weights", _weights(storage.weights_bytes, storage.parameters)))
    if abilities.context:
        sizes.append(("context", f"{abilities.context:,} tokens"))
    tag = "image-text-to-text" if abilities.vision else "text-generation"
    odd = kind_of_folder([file.name for file in files], facts.architectures) is not None
    return About(
        kind="model",
        terms=replace(NO_TERMS, pipeline_tag=None if odd else tag),
        quantization=storage.quantization,
        recipe=_packing(storage.quantization, storage.dtype),
        sizes=tuple(sizes),
    )


def _packing(packed: Quantization | None, dtype: str | None) -> Rows:
    rows: list[tuple[str, str]] = []
    if packed is not None:
        widths = packed.widths or ((packed.bits,) if packed.bits else ())
        if widths:
            rows.append(
                ("bits", ", ".join(map(str, widths)) + (" (mixed)" if packed.mixed else ""))
            )
        if packed.group_size:
            rows.append(("group size", str(packed.group_size)))
        rows.append(("mode", packed.mode))
    if dtype:
        rows.append(("type of the rest" if packed else "type", dtype))
    return tuple(rows)


def _adapter(folder: Path, _files: Sequence[LocalFile]) -> About:
    config = _json(folder / ADAPTER_CONFIG)
    method = config.get("fine_tune_type", "lora" if "lora_parameters" in config else None)
    method = method if isinstance(method, str) and len(method) < 40 else None
    data = origin_of(config.get("data"), beside=folder)
    return About(
        kind="adapter",
        base=origin_of(config.get("model"), beside=folder),
        relation="finetune" if method == "full" else "adapter",
        terms=replace(NO_TERMS, pipeline_tag="text-generation"),
        datasets=(data,) if data else (),
        method=method,
        recipe=_training(config, method, folder),
        sizes=_adapter_sizes(folder),
    )


def _training(config: Mapping[str, Any], method: str | None, folder: Path) -> Rows:
    rows = [("method", _METHODS.get(method, printable(method)))] if method else []
    lora = config.get("lora_parameters")
    if isinstance(lora, dict) and method != "full":
        rows += _told(lora, _LORA)
        keys = lora.get("keys")
        if isinstance(keys, list) and all(isinstance(key, str) for key in keys):
            rows.append(("modules", ", ".join(keys)))
    rows += _told(config, _TRAINING)
    if data := name_of_data(config.get("data"), beside=folder):
        rows.append(("data", data))
    return tuple(rows)


def _told(config: Mapping[str, Any], names: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        (label, value_text(config[key]))
        for key, label in names
        if isinstance(config.get(key), str | int | float)
    ]


def _adapter_sizes(folder: Path) -> Rows:
    try:
        tensors = parse_header(folder / ADAPTER_WEIGHTS).values()
    except BrokenWeightsError:
        return ()
    count = sum(math.prod(tensor["shape"]) for tensor in tensors)
    return (("parameters", f"{format_count(count)} ({count:,})"),)


def _dataset(_folder: Path, files: Sequence[LocalFile]) -> About:
    data = read_data(files)
    sizes = []
    if data.rows is not None and data.files:
        sizes.append(("rows", f"{data.rows:,}"))
    if data.columns:
        sizes.append(("columns", ", ".join(data.columns)))
    if data.format:
        sizes.append(("read by mlx-lm as", data.format))
    return About(kind="dataset", data=data, sizes=tuple(sizes))


def _files(_folder: Path, _chosen: Sequence[LocalFile]) -> About:
    return About(kind="files")


_LEARN = {"model": _model, "adapter": _adapter, "dataset": _dataset, "files": _files}


def _with_front(about: About, front: Mapping[str, Any], folder: Path) -> About:
    """Add what the block of a card in the folder says, as mlx-lm's conversion leaves one."""
    base = front.get("base_model")
    named = base[0] if isinstance(base, list) and len(base) == 1 else base
    return replace(
        about,
        base=about.base or origin_of(named, beside=folder),
        terms=_merged(terms_in(front), about.terms),
    )


def _with_provenance(about: About, known: Provenance) -> About:
    own = Terms(
        license={"license": known.license} if known.license else {},
        language=known.language,
        pipeline_tag=None,
    )
    rows = tuple((name, value_text(value)) for name, value in known.recipe.items())
    taken = {name for name, _ in rows}
    return replace(
        about,
        base=known.base or about.base,
        relation=known.relation or about.relation,
        terms=_merged(own, about.terms),
        datasets=known.datasets or about.datasets,
        recipe=rows + tuple(row for row in about.recipe if row[0] not in taken),
        figures=known.figures,
        versions=known.versions,
    )


def _merged(first: Terms, second: Terms) -> Terms:
    """Return what the first says, and the second where the first says nothing."""
    return Terms(
        license=first.license or second.license,
        language=first.language or second.language,
        pipeline_tag=first.pipeline_tag or second.pipeline_tag,
    )


def value_text(value: Value) -> str:
    """Return a value of a recipe for people."""
    if isinstance(value, tuple):
        return ", ".join(map(value_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _weights(size: int, parameters: int | None) -> str:
    each = f", {8 * size / parameters:.3g} bits a parameter" if parameters else ""
    return format_bytes(size) + each


def _paths_in(folder: Path, names: set[str]) -> list[str]:
    told = {name: tells_paths(_json(folder / name)) for name in _TELLING if name in names}
    return [
        f"{name} ({', '.join(printable(key, 40) for key in keys[:6])})"
        for name, keys in told.items()
        if keys
    ]


def _json(path: Path) -> Mapping[str, Any]:
    try:
        return read_json(path) or {}
    except OSError:
        return {}


def _total(files: Sequence[LocalFile]) -> int:
    return sum(file.size for file in files)
