"""The first load of a model, when nothing is kept of its tokenizer, in processes of their own.

transformers is imported then, beside threads that read weights and mount adapters.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.train.runs import sums, write_rows
from tests.lora import make_adapter
from tests.processes import environ_of, mlxbun, serving


@pytest.fixture
def adapter(tmp_path: Path) -> str:
    return str(make_adapter(tmp_path / "adapter"))


def is_kept(home: Path) -> bool:
    """Return whether the tokenizer was kept, which means that it was read anew."""
    return any((home / ".cache" / "mlxbun" / "tokenizers").glob("*.json"))


def test_a_server_with_an_adapter(tiny_model: str, adapter: str, tmp_path: Path) -> None:
    environ, log = environ_of(tmp_path / "home"), tmp_path / "log"
    with serving(tiny_model, "--adapter", adapter, environ=environ, log=log) as server:
        assert server.ask("Hi", max_tokens=2)["usage"]["completion_tokens"] == 2
        assert "adapter adapter" in server.said()
    assert is_kept(tmp_path / "home")


@pytest.mark.parametrize("with_adapter", [True, False])
def test_one_answer(tiny_model: str, adapter: str, tmp_path: Path, *, with_adapter: bool) -> None:
    words = ["--adapter", adapter] if with_adapter else []
    for attempt in range(2):
        home = tmp_path / f"home-{attempt}"
        done = mlxbun(
            "generate", tiny_model, "Hi", "--max-tokens", "2", "--blas", "off", *words,
            environ=environ_of(home),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert is_kept(home)


@pytest.mark.slow  # ten processes, half a minute
@pytest.mark.parametrize("attempt", [1, 2])
def test_every_other_verb(tiny_model: str, adapter: str, tmp_path: Path, attempt: int) -> None:
    write_rows(tmp_path / "data", sums(8))
    data, rank = str(tmp_path / "data"), ("--rank", "4", "--target-modules", "q_proj,v_proj")
    train = ("train", tiny_model, "--data", data, "--iters", "1", *rank)
    verbs = {
        "chat": ("chat", tiny_model, "--adapter", adapter, "--max-tokens", "2"),
        "bench": ("bench", tiny_model, "--prompts", "16", "--rows", "1", "--tokens", "2"),
        "perplexity": ("perplexity", tiny_model, "--num-samples", "1"),
        "train": (*train, "--adapter-path", str(tmp_path / "one")),
        "warm": (*train, "--warm-start-adapter", adapter, "--adapter-path", str(tmp_path / "two")),
        "fuse": ("fuse", tiny_model, "--adapter", adapter, "--output", str(tmp_path / "fused")),
    }
    for name, words in verbs.items():
        environ = environ_of(tmp_path / f"{name}-{attempt}")
        done = mlxbun(*words, environ=environ, stdin="Hi\n")
        assert done.returncode == 0, (name, done.stderr)
