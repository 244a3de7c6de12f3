"""Whether the network may be used. Reads a given environment only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFLINE = "MLXBUN_OFFLINE"
"""Our own switch; what `--offline` sets."""

FLAG = "--offline"

_SWITCHES = (OFFLINE, "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_ON = ("1", "ON", "YES", "TRUE")


def offline_switch(environ: Mapping[str, str]) -> str | None:
    """Return the name of what forbids the network, or None when nothing does.

    Source for the words that count: huggingface_hub's `ENV_VARS_TRUE_VALUES`.
    """
    if environ.get(OFFLINE) == FLAG:
        return FLAG
    return next((name for name in _SWITCHES if environ.get(name, "").upper() in _ON), None)


def how_to_lift(switch: str) -> str:
    """Return what turns a switch off, as the beginning of a sentence."""
    return f"Leave out {FLAG}" if switch == FLAG else f"Unset {switch}"


def without_network(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which nothing is fetched or sent: `--offline` was given."""
    return {**environ, OFFLINE: FLAG, "HF_HUB_OFFLINE": "1"}
