"""Import of GGUF files: a folder that MLX loads, with the file's own quantized weights.

    container  the file, every number checked      blocks   packed numbers, kept as they are
    families   architectures and sizes             values   numbers, computed and rounded
    layout     names, shapes and config.json       convert  what happens to each tensor
    rope       rotary scaling                      tokenizer, words  the tokenizer's files

This module puts them together: `prepare` reads and decides, `write` writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.progress import Progress, ignore_progress
from core.registry.gguf.blocks import quantization_config
from core.registry.gguf.container import GgufFile, read_gguf
from core.registry.gguf.convert import Stored, Wishes, pieces, settle
from core.registry.gguf.families import find_family, read_dimensions
from core.registry.gguf.layout import build_config, targets
from core.registry.gguf.rope import LONG
from core.registry.gguf.tokenizer import build_tokenizer, spare_templates
from core.registry.safetensors import SafetensorsWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.progress import OnProgress

__all__ = ["Outcome", "Prepared", "Wishes", "import_gguf", "prepare", "write"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What becomes of the tensors of one kind."""

    kind: str
    """GGUF's name of it: `Q4_K`."""
    stored: str
    """How they are stored: `4-bit g32`, `float16`."""
    reason: str
    """`kept`, or what is done to them and why."""
    tensors: int
    """How many they are."""
    size_bytes: int
    """What they take then."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An import that can begin: nothing is written yet."""

    gguf: GgufFile
    """The file."""
    stored: Sequence[Stored]
    """How each tensor is stored."""
    files: Mapping[str, str]
    """The other files of the model: texts by name."""
    model_type: str
    """mlx-lm's name of the architecture."""
    notes: tuple[str, ...]
    """What the file has and the model will not, one sentence each."""

    @property
    def size(self) -> int:
        """Bytes that the model takes on disk, to a few kilobytes."""
        text = sum(len(content.encode("utf-8")) for content in self.files.values())
        return text + sum(one.size for one in self.stored)

    @property
    def outcomes(self) -> list[Outcome]:
        """What becomes of the tensors, by kind and fate, the largest first."""
        groups: dict[tuple[str, str, str], list[Stored]] = {}
        for one in self.stored:
            groups.setdefault((one.entry.kind, one.label, one.reason), []).append(one)
        found = [
            Outcome(
                kind=kind,
                stored=label,
                reason=reason,
                tensors=len(group),
                size_bytes=sum(one.size for one in group),
            )
            for (kind, label, reason), group in groups.items()
        ]
        return sorted(found, key=lambda outcome: -outcome.size_bytes)


def import_gguf(source: Path, folder: Path, *, on_progress: OnProgress = ignore_progress) -> None:
    """Write the model in a GGUF file as an MLX folder.

    Args:
        source: the GGUF file.
        folder: an existing folder; on an error it may hold some of the files.
        on_progress: hears of the bytes of tensors that are done.

    Raises:
        BadModelFiles: the file is damaged, or of a kind that mlxbun does not import.
        BackendMissing: the package `gguf` is not installed, and is needed.
        OSError: a file cannot be read or written.
    """
    write(prepare(source), folder, on_progress=on_progress)


def prepare(source: Path, wishes: Wishes | None = None) -> Prepared:
    """Read a GGUF file and decide what becomes of it.

    Raises:
        BadModelFiles: the file is damaged, or of a kind that mlxbun does not import.
        OSError: the file cannot be read.
    """
    gguf = read_gguf(source)
    family = find_family(gguf)
    size = read_dimensions(gguf, family)
    plan = targets(gguf, family, size)
    config = build_config(gguf, family, size)
    tokenizer = build_tokenizer(gguf, rows=size.vocabulary, context=size.context)
    stored, dtype = settle(gguf, plan, wishes or Wishes(), wide=family.wide)
    config["torch_dtype"] = dtype
    if packings := {one.target.path: one.packing for one in stored if one.packing}:
        config["quantization"] = quantization_config(packings)
    endings = tokenizer["generation_config.json"]
    config.update({key: endings[key] for key in ("bos_token_id", "eos_token_id") if key in endings})
    files = {"config.json": config, **tokenizer}
    return Prepared(
        gguf=gguf,
        stored=stored,
        files={name: _text(content) for name, content in files.items()},
        model_type=family.model_type,
        notes=tuple(_notes(gguf, stored, dtype, wide=family.wide)),
    )


def write(prepared: Prepared, folder: Path, *, on_progress: OnProgress = ignore_progress) -> None:
    """Write a prepared model into an existing folder.

    Raises:
        BadModelFiles: tensors hold numbers that are out of range.
        BackendMissing: the package `gguf` is not installed, and is needed.
        OSError: a file cannot be read or written.
    """
    for name, content in prepared.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    total = sum(one.entry.size for one in prepared.stored)
    task, done = f"converting {prepared.gguf.path.name}", 0
    # A packed tensor becomes three: weight, scales and biases.
    most = 3 * len(prepared.stored)
    target = folder / "model.safetensors"
    with SafetensorsWriter(target, tensors=most, metadata={"format": "mlx"}) as writer:
        for one in prepared.stored:
            for name, (dtype, shape) in one.arrays.items():
                writer.reserve(name, dtype, shape)
            for read, parts in pieces(prepared.gguf, one):
                for name, array in parts.items():
                    writer.put(name, array)
                done += read
                on_progress(Progress(task=task, done=done, total=total))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _notes(gguf: GgufFile, stored: Sequence[Stored], dtype: str, *, wide: bool) -> list[str]:
    notes = []
    odd = {one.dtype for one in stored if one.packing is None and one.dtype != dtype}
    for other in sorted(odd):
        count = sum(one.packing is None and one.dtype == other for one in stored)
        notes.append(
            f"{count} tensors stay {other}, because {dtype} does not hold all their numbers;"
            f" --dtype {dtype} rounds them and makes the model faster."
        )
    if wide and dtype == "float16":
        notes.append(
            "Models of this architecture can leave float16's range; if answers turn out as noise,"
            " import with --dtype bfloat16."
        )
    if LONG in gguf.tensors:
        notes.append("mlx-lm uses the rotary factors for long contexts at every length.")
    if templates := spare_templates(gguf):
        notes.append(f"Only the default chat template is kept; left out: {', '.join(templates)}.")
    return notes
