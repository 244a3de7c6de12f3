"""Settings: one table of fields, merged once, every value knowing where it came from.

default < config file < `MLXBUN_*` < flag. The merge is a pure function of its four inputs; only
`read_config` and `write_config` touch the disk. Does not know the terminal or the environment.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from core.errors import MlxbunError, StoreCorrupt, UsageProblem
from core.paths import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

    from core.paths import Paths

Source = Literal["default", "config file", "environment", "flag"]

_FOLDERS = f"a list of folders, each from / or ~ on, parted by {os.pathsep!r}"


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def parse(raw: Any) -> int:
        number = int(raw) if isinstance(raw, str) else raw
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return number

    return parse


def _number(low: float, high: float) -> Callable[[Any], float]:
    def parse(raw: Any) -> float:
        number = float(raw) if isinstance(raw, str) else raw
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"a number from {low:g} to {high:g}")
        if not low <= number <= high:  # also refuses NaN
            raise ValueError(f"a number from {low:g} to {high:g}")
        return float(number)

    return parse


@dataclass(frozen=True)
class _Choice:
    """Takes one of a few words."""

    words: tuple[str, ...]

    def __call__(self, raw: Any) -> str:
        if raw not in self.words:
            raise ValueError(f"one of {', '.join(self.words)}")
        return str(raw)


@dataclass(frozen=True)
class _Switch:
    """Takes yes or no, in the words for it."""

    yes: str
    no: str

    def __call__(self, raw: Any) -> bool:
        if isinstance(raw, bool):
            return raw
        if raw not in (self.yes, self.no):
            raise ValueError(f"{self.yes} or {self.no}")
        return bool(raw == self.yes)


def _text(raw: Any) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError("a text that is not empty")
    return raw


def _folders(raw: Any) -> tuple[str, ...]:
    """Take a list, or one text in which `os.pathsep` parts the folders."""
    given = raw.split(os.pathsep) if isinstance(raw, str) else raw
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise ValueError(_FOLDERS)
    folders = tuple(each for each in given if each)
    if any("\0" in each or not each.startswith(("/", "~")) for each in folders):
        raise ValueError(_FOLDERS)
    return folders


def _setting(default: Any, parse: Callable[[Any], Any], help_text: str) -> Any:
    return field(default=default, metadata={"parse": parse, "help": help_text})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting with its default. None means: decided from the model or the machine."""

    model: str | None = _setting(
        None, _text, "Model to use when none is named: a folder, a repo id or a part of one."
    )
    model_folders: tuple[str, ...] = _setting(
        (),
        _folders,
        "Folders of models beside the Hugging Face cache: a model, or models in it, org/name too.",
    )
    adapter: str | None = _setting(
        None, _text, "Adapter to put on the model: a folder, or the name of one that is kept."
    )
    host: str = _setting("127.0.0.1", _text, "Interface that serve listens on.")
    port: int = _setting(8080, _integer(0, 65535), "Port that serve listens on; 0: a free one.")
    batch: int = _setting(8, _integer(1, 256), "Requests decoded together; 1 is serial.")
    max_tokens: int | None = _setting(
        None, _integer(1, 2**31 - 1), "Tokens to generate when a request sets no limit."
    )
    temperature: float | None = _setting(None, _number(0, 100), "Default temperature; 0 is greedy.")
    top_p: float | None = _setting(None, _number(0, 1), "Default nucleus mass; 0 and 1 are off.")
    top_k: int | None = _setting(None, _integer(0, 2**31 - 1), "Default top-k; 0 is off.")
    min_p: float | None = _setting(None, _number(0, 1), "Default min-p; 0 is off.")
    thinking: bool | None = _setting(
        None,
        _Switch("true", "false"),
        "Whether models reason before they answer, when a request does not say: true or false.",
    )
    grammar: bool = _setting(
        True,
        _Switch("1", "0"),
        "Whether structured output is enforced: 1; with 0 models are only asked for it.",
    )
    hlg_sampling: bool | None = _setting(
        None, _Switch("on", "off"), "Tone-curve sampling by default: on or off."
    )
    hlg_width: float = _setting(4.0, _number(0, 100), "Width of its plateau, in nats.")
    hlg_shoulder: float = _setting(4.0, _number(0.01, 100), "Width of its shoulder, in nats.")
    hlg_toe: float = _setting(6.0, _number(0.01, 100), "Width of its toe, in nats.")
    hlg_pivot_offset: float = _setting(
        6.0, _number(0, 100), "How far below the likeliest token its pivot lies, in nats."
    )
    memory_budget: float | None = _setting(
        None,
        _number(0.01, 1e6),
        "Memory for weights and caches in GB; unset: the device's working set or 0.75 of RAM.",
    )
    kv_budget: float | None = _setting(
        None,
        _number(0.001, 1e6),
        "Memory for the KV of running requests in GB; others wait. Unset: what the weights leave.",
    )
    prompt_cache: float = _setting(
        2.0, _number(0, 1e4), "KV kept for prompts to come, in GiB, running ones included; 0: off."
    )
    prefill: str = _setting(
        "latency",
        _Choice(("latency", "throughput")),
        "Whom a long prompt may slow down: itself (latency) or the streams that run (throughput).",
    )
    blas: str = _setting(
        "auto", _text, "BLAS for MLX on a CPU: auto, off, or the path of a shared library."
    )
    dequantize: str = _setting(
        "auto",
        _Choice(("auto", "on", "off")),
        "Unpack quantized weights to float32; auto: on a CPU with a fast BLAS when they fit.",
    )
    keep_alive: float | None = _setting(
        None,
        _number(0.01, 1e6),
        "Minutes without work until the model leaves memory; never if unset.",
    )
    drain_timeout: float = _setting(
        30.0, _number(0, 3600), "Seconds that running answers get to finish when serve is stopped."
    )


@dataclass(frozen=True, kw_only=True)
class ResolvedSetting:
    """One value with its origin."""

    name: str
    value: Any
    source: Source
    help: str


@dataclass(frozen=True, kw_only=True)
class ResolvedSettings:
    """The merged settings and where each came from."""

    values: Settings
    sources: Mapping[str, Source]

    def rows(self) -> list[ResolvedSetting]:
        """Return one row per setting, in the order of `Settings`."""
        return [
            ResolvedSetting(
                name=f.name,
                value=getattr(self.values, f.name),
                source=self.sources[f.name],
                help=f.metadata["help"],
            )
            for f in fields(Settings)
        ]


def parse_setting(name: str, raw: Any, *, where: str) -> Any:
    """Return `raw` as the type of the setting `name`.

    Args:
        name: a field of `Settings`.
        raw: a text (environment, command line) or a TOML value.
        where: how to call the place in an error: `MLXBUN_PORT`, `--port`.

    Raises:
        UsageProblem: no such setting, or a value outside its range.
    """
    known = {f.name: f for f in fields(Settings)}
    if name not in known:
        place = "" if where == name else f" ({where})"
        raise UsageProblem(
            f"There is no setting named {name!r}{place}.",
            hint=f"There are {', '.join(known)}.",
        )
    try:
        return known[name].metadata["parse"](raw)
    except (ValueError, OverflowError) as problem:
        text = str(problem)
        wanted = text if text.startswith(("a ", "one of")) else "a number"
        raise UsageProblem(f"{where} must be {wanted}, not {raw!r}.") from None


def choices_of(name: str) -> tuple[str, ...]:
    """Return the only values that a setting can have; none where there are more, or no setting."""
    parsers = {f.name: f.metadata["parse"] for f in fields(Settings)}
    parse = parsers.get(name)
    return parse.words if isinstance(parse, _Choice) else ()


def merge_settings(
    *, config: Mapping[str, Any], environ: Mapping[str, str], flags: Mapping[str, Any]
) -> ResolvedSettings:
    """Merge the four layers into one frozen record.

    Args:
        config: the parsed config file.
        environ: an environment; `MLXBUN_<NAME>` counts where it is not empty.
        flags: values given on the command line; None means not given.

    Raises:
        UsageProblem: an unknown name or a value outside its range, naming the layer.
    """
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {f.name: "default" for f in fields(Settings)}
    for name, raw in config.items():
        values[name] = parse_setting(name, raw, where=f"{name} in the config file")
        sources[name] = "config file"
    for name in sources:
        if raw := environ.get(f"MLXBUN_{name.upper()}"):
            values[name] = parse_setting(name, raw, where=f"MLXBUN_{name.upper()}")
            sources[name] = "environment"
    for name, raw in flags.items():
        if raw is not None:
            values[name] = parse_setting(name, raw, where=f"--{name.replace('_', '-')}")
            sources[name] = "flag"
    return ResolvedSettings(values=dataclasses.replace(Settings(), **values), sources=sources)


def read_config(path: Path) -> dict[str, Any]:
    """Return the config file's values; a missing file is an empty one.

    Raises:
        StoreCorrupt: the file cannot be read or is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise StoreCorrupt(
            f"The config file {path} cannot be read: {reason}.",
            hint="Mend it or move it away; mlxbun runs without one.",
        ) from problem


def settings_of(paths: Paths, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a process without flags, such as that of a job.

    Raises:
        UsageProblem: a value outside its range, naming its layer.
        StoreCorrupt: the config file cannot be read.
    """
    file = read_config(paths.config_file)
    return merge_settings(config=file, environ=environ, flags={}).values


def write_config(path: Path, name: str, value: Any | None) -> None:
    """Set one value in the config file, or take it out with None. Comments and order stay.

    Raises:
        StoreCorrupt: the file that is there cannot be read.
        MlxbunError: the file cannot be written; the old one stays.
    """
    import tomlkit

    read_config(path)  # refuse to rewrite what we cannot read
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    document = tomlkit.parse(text)
    if value is None:
        document.pop(name, None)
    else:
        document[name] = value
    try:
        with atomic_write(path) as file:
            file.write(tomlkit.dumps(document).encode("utf-8"))
    except OSError as problem:
        raise MlxbunError(
            f"The config file {path} cannot be written: {problem.strerror or problem}.",
            hint="Make room and its folder writable, or set MLXBUN_HOME to another folder.",
        ) from problem
