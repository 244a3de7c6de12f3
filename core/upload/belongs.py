"""Which files of a folder belong to what is uploaded. Pure: names in, reasons out."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from core.upload.kinds import Kind

# Folders that the Hub takes from nobody (huggingface_hub's FORBIDDEN_FOLDERS).
FORBIDDEN = (".git", ".cache")

# What belongs to nothing, whatever is uploaded; the first that fits gives the reason. Patterns of
# folders end in a slash. All are compared in lower case.
_JUNK: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("made by Python", ("__pycache__/", "*.pyc", "*.egg-info/", "venv/", "node_modules/")),
    ("made by the system", ("thumbs.db", "desktop.ini", "__macosx/")),
    (
        "a key, or may hold one",
        ("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx",
         "*.kdbx", "*.keystore", "*.env", "token", "token.txt", "hf-token", "hf_token*",
         "credentials", "credentials.*", "secret.*", "secrets.*", "client_secret*.json",
         "service_account*.json", "service-account*.json", "kubeconfig", "*.ppk", "*.jks", "*.asc",
         "*.gpg", "*api_key*", "*api-key*", "*apikey*", "*private_key*", "*access_token*",
         "*auth_token*", "*hf_token*", "*password*", "*credential*", "*_secret.*", "*_secrets.*",
         "cookies.*"),
    ),
    (
        "temporary",
        ("*.tmp", "*.temp", "*.part", "*.partial", "*.incomplete", "*.crdownload", "*.lock",
         "*.swp", "*.bak", "*~", "tmp/", "temp/"),
    ),
    (
        "a checkpoint of a training",
        ("[0-9][0-9][0-9][0-9][0-9][0-9][0-9]_adapters.safetensors", "checkpoint-*/",
         "checkpoints/", "checkpoint/"),
    ),
    (
        "the state of a training",
        ("optimizer*", "optim.*", "*.optimizer.*", "*optimizer_state*", "*optim_states*",
         "scheduler.pt", "scaler.pt", "rng_state*", "trainer_state.json", "training_args.bin",
         "training_state*", "global_step*/", "zero_to_fp32.py", "latest"),
    ),
    (
        "a log",
        ("*.log", "wandb/", "runs/", "logs/", "mlruns/", "events.out.tfevents*", "nohup.out"),
    ),
)  # fmt: skip

_PEOPLE = ("readme*", "license*", "licence*", "notice*", "use_policy*", "citation*", "*.md",
           "*.png", "*.jpg", "*.jpeg", "*.gif", "*.webp", "*.svg", "*.pdf")  # fmt: skip
_CONFIGS = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py", "*.vocab", "*.bpe",
            "*.yaml", "*.yml")  # fmt: skip
_KEPT: Mapping[Kind, tuple[str, ...]] = {
    "model": ("model*.safetensors", *_CONFIGS, *_PEOPLE),
    "adapter": ("adapters.safetensors", *_CONFIGS, *_PEOPLE),
    "dataset": (
        "*.jsonl", "*.jsonl.gz", "*.json", "*.csv", "*.tsv", "*.parquet", "*.arrow", "*.txt",
        "*.py", "*.yaml", "*.yml", "*.tar", "*.zip",
        "*.wav", "*.mp3", "*.flac", "*.ogg", "*.mp4", *_PEOPLE,
    ),
    "files": ("*",),
}  # fmt: skip
_NO_PART = {
    "model": "no file that a model is loaded from",
    "adapter": "no file that an adapter is loaded from",
    "dataset": "no file of data",
    "files": "",
}


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the user asked for beyond the usual. `*` matches `/` too; a folder ends in `/`."""

    include: tuple[str, ...] = ()
    """Patterns of files that are taken, although they would be left out."""
    exclude: tuple[str, ...] = ()
    """Patterns of files that are left out, whatever else fits them."""


def reason_to_skip(name: str, kind: Kind, selection: Selection) -> str | None:
    """Return why a file is left out, in a word or two, or None when it is uploaded.

    Args:
        name: its path below the folder, with `/`.
        kind: what is uploaded.
        selection: the user's patterns.
    """
    if forbidden := _forbidden(name):
        return forbidden
    if fits(name, selection.exclude):
        return "--exclude"
    if fits(name, selection.include):
        return None
    return _junk(name) or _no_part(name, kind)


def reason_to_stay_out(name: str, selection: Selection) -> str | None:
    """Return why a folder is left out whole, or None when one has to look into it.

    Args:
        name: its path, with `/` and without one at its end.
        selection: the user's patterns; one of `include` that begins with the folder opens it.
    """
    if forbidden := _forbidden(name):
        return forbidden
    inside = f"{name}/"
    if fits(inside, selection.exclude):
        return "--exclude"
    if any(p.startswith(inside) for p in selection.include):
        return None
    return _junk(inside)


def unmatched(patterns: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first pattern that fits none of the names, or None when all fit some."""
    known = list(names)
    return next((p for p in patterns if not any(fits(name, (p,)) for name in known)), None)


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name fits one of some patterns, which are read as huggingface_hub's."""
    return any(fnmatchcase(name, p + "*" if p.endswith("/") else p) for p in patterns)


def _forbidden(name: str) -> str | None:
    found = next((part for part in name.split("/") if part in FORBIDDEN), None)
    return f"the Hub takes no {found}" if found else None


def _junk(name: str) -> str | None:
    parts = name.lower().split("/")
    if any(part.startswith(".") for part in parts):
        return "hidden"
    names = [f"{part}/" for part in parts[:-1]] + [parts[-1]]
    for reason, patterns in _JUNK:
        if any(fnmatchcase(part, pattern) for part in names if part for pattern in patterns):
            return reason
    return None


def _no_part(name: str, kind: Kind) -> str | None:
    last = name.rpartition("/")[2].lower()
    if any(fnmatchcase(last, pattern) for pattern in _KEPT[kind]):
        return None
    return _NO_PART[kind]
