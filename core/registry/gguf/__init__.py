"""Import of GGUF files: a folder that MLX loads, with the file's own quantized weights.

Reads the llama architecture in F32, F16, Q4_0, Q4_1 and Q8_0. `container` checks the file,
`blocks` turns its numbers, `llama` its names and `tokenizer` its words; this module writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from core.progress import Progress, ignore_progress
from core.registry.gguf.container import read_gguf
from core.registry.gguf.llama import build_config, convert, read_dimensions, targets
from core.registry.gguf.tokenizer import build_tokenizer
from core.registry.safetensors import SafetensorsWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.progress import OnProgress
    from core.registry.gguf.container import GgufFile
    from core.registry.gguf.llama import Target


def import_gguf(source: Path, folder: Path, *, on_progress: OnProgress = ignore_progress) -> None:
    """Write the model in a GGUF file as an MLX folder.

    Args:
        source: the GGUF file.
        folder: an existing folder; on an error it may hold some of the files.
        on_progress: told the bytes of tensors written.

    Raises:
        BadModelFiles: the file is damaged, or of a kind that mlxbun does not import.
        OSError: a file cannot be read or written.
    """
    gguf = read_gguf(source)
    size = read_dimensions(gguf)
    plan = targets(gguf, size)
    config = build_config(gguf, size, plan)
    tokenizer = build_tokenizer(gguf, rows=size.vocabulary, context=size.context)
    endings = tokenizer["generation_config.json"]
    config.update({key: endings[key] for key in ("bos_token_id", "eos_token_id") if key in endings})
    for name, content in {"config.json": config, **tokenizer}.items():
        (folder / name).write_text(_text(content), encoding="utf-8")
    _write_weights(gguf, plan, folder / "model.safetensors", on_progress)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _write_weights(
    gguf: GgufFile, plan: Mapping[str, Target], target: Path, on_progress: OnProgress
) -> None:
    total = sum(gguf.tensors[name].size for name in plan)
    done = 0
    # A packed tensor becomes three: weight, scales and biases.
    most = 3 * len(plan)
    with SafetensorsWriter(target, tensors=most, metadata={"format": "mlx"}) as writer:
        for name, place in plan.items():
            entry = gguf.tensors[name]
            for full_name, array in convert(gguf, entry, place).items():
                writer.add(full_name, array)
            done += entry.size
            on_progress(Progress(task=f"converting {gguf.path.name}", done=done, total=total))
