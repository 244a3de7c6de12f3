"""Models and environments for commands that run as processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import environ_of
from tests.tiny import llama_config, make_model


@pytest.fixture(scope="session")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with a home that holds no settings and no models."""
    return environ_of(tmp_path_factory.mktemp("home"))


@pytest.fixture
def fresh_environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home that the test may write to."""
    return environ_of(tmp_path / "home")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a tiny random model."""
    return str(make_model(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="session")
def endless_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a small model that talks for a long time: its end is no token of it."""
    config = llama_config(
        hidden_size=512,
        num_hidden_layers=4,
        intermediate_size=1024,
        max_position_embeddings=1_000_000,
        eos_token_id=258,
    )
    return str(make_model(tmp_path_factory.mktemp("models") / "endless", config=config))


@pytest.fixture(scope="session")
def plain_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a tiny model without a chat template."""
    return str(make_model(tmp_path_factory.mktemp("models") / "plain", chat_template=None))


@pytest.fixture(scope="session")
def truncated_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of a tiny model of whose weights the second half is missing."""
    folder = make_model(tmp_path_factory.mktemp("models") / "truncated")
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[: len(data) // 2])
    return str(folder)
