"""`make bench`: mlxbun serve against mlx_lm.server, same model, same client, one run.

All servers are up at once and idle while another is measured; rounds alternate between them, so
that a noisy moment hits both. Two peers, always both shown: *as installed* (4-bit weights, MLX's
own BLAS; short, it is slow on a CPU) and *equal* (float32 weights, our OpenBLAS).
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.client import ask, ask_together, prompt
from benchmarks.peers import Peer, copy_model, mlx_lm_as_installed, mlx_lm_equal, mlxbun
from core.machine.probe import probe_machine
from core.paths import Paths
from core.progress import ignore_progress

CLIENTS = 8


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of the table."""

    name: str
    """What is measured, with its unit."""
    lower_is_better: bool
    """How the ratio is turned, so that above 1 is always better for us."""
    measure: Callable[[Peer, str], float]
    """Takes a server and a salt that makes prompts new."""


def _ttft_cold(peer: Peer, salt: str) -> float:
    return ask(peer.url, prompt(130, salt), 1).ttft


def _ttft_warm(peer: Peer, salt: str) -> float:
    ask(peer.url, prompt(130, f"warm {salt}"), 1)
    return ask(peer.url, prompt(130, f"warm {salt}"), 1).ttft


def _prefill(words: int) -> Callable[[Peer, str], float]:
    return lambda peer, salt: ask(peer.url, prompt(words, f"prefill {salt}"), 1).prefill_rate


def _decode(tokens: int) -> Callable[[Peer, str], float]:
    return lambda peer, salt: ask(peer.url, prompt(5, f"decode {salt}"), tokens).decode_rate


def _together(tokens: int) -> Callable[[Peer, str], float]:
    def measure(peer: Peer, salt: str) -> float:
        texts = [prompt(5, f"{salt} {client}") for client in range(CLIENTS)]
        return ask_together(peer.url, texts, tokens)

    return measure


def _figures(tokens: int, prefill_words: int) -> list[Figure]:
    return [
        Figure(name="TTFT cold, ~220 tokens (s)", lower_is_better=True, measure=_ttft_cold),
        Figure(name="TTFT warm, ~220 tokens (s)", lower_is_better=True, measure=_ttft_warm),
        Figure(
            name=f"prefill, ~{round(prefill_words * 1.5, -1):.0f} tokens (tokens/s)",
            lower_is_better=False,
            measure=_prefill(prefill_words),
        ),
        Figure(
            name=f"decode, 1 client x {tokens} (tokens/s)",
            lower_is_better=False,
            measure=_decode(tokens),
        ),
        Figure(
            name=f"total, {CLIENTS} clients x {tokens} (tokens/s)",
            lower_is_better=False,
            measure=_together(tokens),
        ),
    ]


def measure(ours: Peer, theirs: Peer, figures: Sequence[Figure], rounds: int) -> list[list[str]]:
    """Return the rows of one comparison: name, ours, theirs, ratio (above 1: ours is better)."""
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(rounds):
        for figure in figures:
            pair = (ours, theirs) if number % 2 == 0 else (theirs, ours)
            for peer in pair:
                # A salt of its own, or the next comparison would find these prompts in the cache.
                salt = f"{theirs.name} {number}"
                samples[figure.name, peer.name].append(figure.measure(peer, salt))
    rows = [_row("start to ready (s)", [ours.start_to_ready], [theirs.start_to_ready], lower=True)]
    for figure in figures:
        mine, other = samples[figure.name, ours.name], samples[figure.name, theirs.name]
        rows.append(_row(figure.name, mine, other, lower=figure.lower_is_better))
    return rows


def _row(name: str, ours: list[float], theirs: list[float], *, lower: bool) -> list[str]:
    ratios = [b / a if lower else a / b for a, b in zip(ours, theirs, strict=True)]
    return [name, f"{median(ours):.3g}", f"{median(theirs):.3g}", f"{median(ratios):.2f}"]


def table(title: str, rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    head = [f"against {title}", "mlxbun", "peer", "ratio"]
    lines = [head, ["---", "---:", "---:", "---:"], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    model = options.model or _starter()
    paths = Paths.from_environ({})
    float32 = copy_model(model, options.out / "float32", unpack=True)
    packed = copy_model(model, options.out / "packed", unpack=False)
    ours = mlxbun(model)
    installed, equal = mlx_lm_as_installed(packed), mlx_lm_equal(float32, paths.cache)
    with ExitStack() as stack:
        for peer in (ours, equal, installed):
            log = stack.enter_context((options.out / f"{peer.name}.log").open("wb"))
            stack.callback(peer.stop)
            peer.start(log)
        comparisons = {
            "mlx_lm.server equal": measure(ours, equal, _figures(64, 700), options.rounds),
            "mlx_lm.server as installed": measure(ours, installed, _figures(16, 130), 1),
        }
    machine = probe_machine()
    print(f"\n{machine.processor}, {machine.cores} cores, {platform.system()}, ", end="")
    print(f"{datetime.now(UTC):%Y-%m-%d}; ratio above 1: mlxbun is better.\n")
    for title, rows in comparisons.items():
        print(table(title, rows) + "\n")
    (options.out / "serve.json").write_text(json.dumps(comparisons, indent=2))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="a quantized model folder [the starter]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the equal comparison [5]")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    return parser.parse_args()


def _starter() -> Path:
    import os

    from core.download import fetch_starter
    from core.machine.probe import probe_machine

    machine = probe_machine()
    return fetch_starter(
        paths=Paths.from_environ(os.environ),
        environ=os.environ,
        memory_budget_bytes=machine.memory_bytes // 2,
        has_gpu=machine.backend != "cpu",
        on_progress=ignore_progress,
        on_note=print,
    ).folder


if __name__ == "__main__":
    main()
