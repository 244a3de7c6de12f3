"""Which model types the installed mlx-lm can load, found without importing it.

Importing mlx-lm imports MLX and transformers, which takes longer than `mlxbun ls` may. What is
needed stands in its source: a module `models/<type>.py` with a class `Model`, and two tables of
other names in `utils.py`. They are read as text, so an upgraded mlx-lm is read as it is.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HAS_MODEL = re.compile(
    r"^class Model\b|^Model\s*[:=]|^from\s+\S+\s+import\s+(?:\([^)]*\bModel\b|[^\n(]*\bModel\b)",
    re.MULTILINE,
)
_IMPORTS = re.compile(r"^from\s+\.(\w*)\s+import\s+(\([^)]*\)|[^\n(]*)", re.MULTILINE)
_EXITS_WITHOUT = re.compile(r"^try:\n    import (\w+)\b.*\nexcept ImportError", re.MULTILINE)
_ARGUMENTS = re.compile(r"^class ModelArgs\(BaseModelArgs\):\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
_READS_FP8 = ("weight_scale_inv", "from_fp8")
_VERSION = re.compile(r"__version__\s*=\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, kw_only=True)
class Architectures:
    """What mlx-lm can load."""

    version: str | None = None
    """mlx-lm's version; None: it is not installed, or does not tell."""
    types: frozenset[str] = frozenset()
    """Model types with a module of their own."""
    read_fp8: frozenset[str] = frozenset()
    """Those of them that unpack FP8 weights with block scales."""
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys without which a config.json is refused, by module, where that is known."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Model types that are loaded as another one."""
    renamed_classes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The same, by (model type, class that the config names)."""

    def module_for(self, model_type: str, classes: Iterable[str] = ()) -> str | None:
        """Return the module that loads a model, or None when there is none.

        The order is that of `mlx_lm.utils._get_classes`.
        """
        by_class = (self.renamed_classes.get((model_type, name)) for name in classes)
        found = next(filter(None, by_class), None) or self.renamed.get(model_type, model_type)
        return found if found in self.types else None

    def to_plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "version": self.version,
            "types": sorted(self.types),
            "read_fp8": sorted(self.read_fp8),
            "required": {name: list(keys) for name, keys in self.required.items()},
            "renamed": dict(self.renamed),
            "renamed_classes": [[*key, name] for key, name in self.renamed_classes.items()],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Architectures:
        """Return what `to_plain` gave.

        Raises:
            TypeError, KeyError, ValueError, AttributeError: it is something else.
        """
        return cls(
            version=plain["version"],
            types=frozenset(plain["types"]),
            read_fp8=frozenset(plain["read_fp8"]),
            required={name: tuple(keys) for name, keys in plain["required"].items()},
            renamed=dict(plain["renamed"]),
            renamed_classes={(a, b): name for a, b, name in plain["renamed_classes"]},
        )


def find_mlx_lm() -> Path | None:
    """Return where mlx-lm is installed, or None. Does not import it."""
    try:
        spec = find_spec("mlx_lm")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def stamp_of(package: Path | None) -> str:
    """Return a text that differs for another installation or version of mlx-lm."""
    if package is None:
        return "none"
    parts = [str(package)]
    for path in (package / "utils.py", package / "_version.py", package / "models"):
        try:
            status = path.stat()
        except OSError:
            continue
        parts.append(f"{path.name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
    return "\n".join(parts)


def read_architectures(package: Path | None) -> Architectures:
    """Return what an installed mlx-lm can load; nothing where there is none to read."""
    sources = _sources(package / "models") if package else {}
    if package is None or not sources:
        return Architectures()
    utils = _text(package / "utils.py")
    tables = _tables(utils, "MODEL_REMAPPING", "MODEL_ARCHITECTURE_REMAPPING")
    version = _VERSION.search(_text(package / "_version.py"))
    return Architectures(
        version=version[1] if version else None,
        types=frozenset(name for name, text in sources.items() if _is_loadable(text)),
        read_fp8=_reading_fp8(sources),
        required={name: keys for name, text in sources.items() if (keys := _required(text))},
        renamed={a: b for a, b in tables[0].items() if isinstance(a, str) and isinstance(b, str)},
        renamed_classes={
            key: name
            for key, name in tables[1].items()
            if isinstance(key, tuple) and len(key) == 2 and isinstance(name, str)
        },
    )


def _sources(folder: Path) -> dict[str, str]:
    return {path.stem: _text(path) for path in sorted(folder.glob("*.py"))}


def _is_loadable(source: str) -> bool:
    """Return whether a module holds a model, and does not end the process for want of a package."""
    wanted = _EXITS_WITHOUT.findall(source) if "sys.exit(" in source else []
    return bool(_HAS_MODEL.search(source)) and all(find_spec(name) for name in wanted)


def _required(source: str) -> tuple[str, ...]:
    """Return the keys that a module's `ModelArgs` has no default for.

    None where it takes them from elsewhere, by a `from_dict` of its own.
    """
    if (found := _ARGUMENTS.search(source)) is None:
        return ()
    try:
        (arguments,) = ast.parse(found[0]).body
    except (SyntaxError, ValueError, RecursionError):
        return ()
    body = arguments.body if isinstance(arguments, ast.ClassDef) else []
    if any(isinstance(part, ast.FunctionDef) and part.name == "from_dict" for part in body):
        return ()
    bare = (part for part in body if isinstance(part, ast.AnnAssign) and part.value is None)
    return tuple(part.target.id for part in bare if isinstance(part.target, ast.Name))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _tables(source: str, *names: str) -> list[dict[Any, Any]]:
    """Return the dictionaries that a module assigns to names; empty where it does not."""
    found: dict[str, dict[Any, Any]] = {}
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError):  # for a Python newer than this one
        statements = []
    for statement in statements:
        targets = (
            statement.targets
            if isinstance(statement, ast.Assign)
            else [statement.target]
            if isinstance(statement, ast.AnnAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and target.id in names:
                found[target.id] = _literal(statement.value)  # type: ignore[attr-defined]
    return [found.get(name, {}) for name in names]


def _literal(value: ast.expr | None) -> dict[Any, Any]:
    try:
        content = ast.literal_eval(value) if value is not None else None
    except (ValueError, TypeError):
        content = None
    return content if isinstance(content, dict) else {}


def _reading_fp8(sources: Mapping[str, str]) -> frozenset[str]:
    """Return the modules that unpack FP8 weights, or take parts from one that does."""
    parts = {name: _parts(text) for name, text in sources.items()}
    found = {name for name, text in sources.items() if any(word in text for word in _READS_FP8)}
    while more := {name for name in parts if name not in found and parts[name] & found}:
        found |= more
    return frozenset(found)


def _parts(source: str) -> set[str]:
    """Return the modules beside it that a module imports from."""
    found: set[str] = set()
    for module, imported in _IMPORTS.findall(source):
        found |= {module} if module else set(re.findall(r"\w+", imported))
    return found
