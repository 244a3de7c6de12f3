"""Which files of a repository are worth fetching for MLX. Pure: names in, names out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from core.errors import BadModelFiles, NotFound
from core.units import format_bytes

# What mlx-lm reads: weights, configs, tokenizers, chat templates and a tokenizer's own code; and
# what a person reads.
_KEPT = ("*.safetensors", "*.json", "*.jsonl", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py",
         "README*", "LICENSE*", "LICENCE*", "NOTICE*", "USE_POLICY*")  # fmt: skip
# The same weights once more, for other programs.
_COPIES = ("original/*", "consolidated*", "*/consolidated*", "onnx/*", "openvino/*", "coreml/*")
_OTHER_WEIGHTS = (".bin", ".pth", ".pt", ".gguf", ".onnx", ".h5", ".msgpack", ".ckpt", ".npz")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the user asked for beyond the usual."""

    include: tuple[str, ...] = ()
    """Patterns of file names that take the place of the usual ones; `*` matches `/` too."""
    exclude: tuple[str, ...] = ()
    """Patterns of file names that are left out, whatever else fits them."""


def choose_files(sizes: dict[str, int], choice: Choice, *, repo_id: str) -> list[str]:
    """Return the names of the files to fetch: what people read and configs first, weights last.

    Args:
        sizes: every file of the repository by name, in bytes.
        choice: the user's patterns, spelled as huggingface_hub's.
        repo_id: for messages.

    Raises:
        NotFound: a pattern of `include` fits no file, or nothing is left to fetch.
        BadModelFiles: nothing was asked for by name, and the repository has no weights for MLX.
    """
    for pattern in choice.include:
        if not any(_fits(name, (pattern,)) for name in sizes):
            raise NotFound(
                f"No file of {repo_id} is called {pattern!r}.",
                hint=f"It holds {_some(sizes)}.",
            )
    fitting = [name for name in sizes if _is_wanted(name, choice.include)]
    if not choice.include and not any(map(_is_weights, fitting)):
        raise BadModelFiles(
            f"{repo_id} has no safetensors weights{_instead(sizes)}.",
            hint=_way_out(sizes),
        )
    chosen = [name for name in fitting if not _fits(name, choice.exclude)]
    if not chosen:
        raise NotFound(
            f"Nothing of {repo_id} is left to fetch: --exclude fits every file.",
            hint=f"It holds {_some(sizes)}.",
        )
    return sorted(chosen, key=lambda name: (_is_weights(name), name))


def _is_wanted(name: str, include: Sequence[str]) -> bool:
    if include:
        return _fits(name, include)
    return _fits(name, _KEPT) and not _fits(name, _COPIES)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    # As huggingface_hub reads them: a pattern that ends in a slash means the folder's files.
    return any(fnmatchcase(name, p + "*" if p.endswith("/") else p) for p in patterns)


def _is_weights(name: str) -> bool:
    return name.endswith(".safetensors")


def _instead(sizes: dict[str, int]) -> str:
    """Return which other weights there are, as the end of a sentence."""
    by_kind: dict[str, int] = {}
    for name, size in sizes.items():
        kind = PurePosixPath(name).suffix
        if kind in _OTHER_WEIGHTS:
            by_kind[kind] = by_kind.get(kind, 0) + size
    kinds = sorted(by_kind, key=lambda kind: -by_kind[kind])
    if not kinds:
        return ""
    return ", only " + ", ".join(f"{kind} ({format_bytes(by_kind[kind])})" for kind in kinds)


def _way_out(sizes: dict[str, int]) -> str:
    if any(name.endswith(".gguf") for name in sizes):
        return "Download one of its files with --include FILE.gguf, then run `mlxbun import` on it."
    return "Fetch files of it by name with --include, or choose a repository for MLX."


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return (", ".join(listed[:8]) or "no files") + more
