"""`make bench`: mlxbun serve against mlx_lm.server, same model, same client, one run.

Servers that are compared are up together and idle while another is measured; pairs alternate, so
that a noisy moment hits both. Two peers, always both shown: *equal* (float32 weights, our OpenBLAS)
and *as installed* (4-bit weights, MLX's own BLAS; short, it is slow on a CPU). How to read the
figures: docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.client import Interruption, ask, ask_together, interrupt, prompt, user
from benchmarks.compare import Goal, Row, table, take_turns
from benchmarks.inside import inside
from benchmarks.peers import Peer, copy_model, mlx_lm_as_installed, mlx_lm_equal, mlxbun
from core.machine.compute import prepare_compute
from core.machine.probe import probe_machine
from core.paths import Paths
from core.progress import ignore_progress

Measure = Callable[[Peer, str], float]
SECTIONS = ("equal", "installed", "start", "gaps", "inside")
_LONG_WORDS = 1570  # about 2,000 tokens of the starter


def ttft(words: int) -> Measure:
    """Seconds to the first text of a prompt that nobody has seen."""
    return lambda peer, salt: ask(peer.url, user(prompt(words, salt)), 1).ttft


def ttft_again(words: int) -> Measure:
    """Seconds to the first text of a prompt that was answered before."""

    def measure(peer: Peer, salt: str) -> float:
        ask(peer.url, user(prompt(words, f"again {salt}")), 1)
        return ask(peer.url, user(prompt(words, f"again {salt}")), 1).ttft

    return measure


def decode(tokens: int) -> Measure:
    """Tokens a second of one client after its first token."""
    return lambda peer, salt: ask(peer.url, user(prompt(5, salt)), tokens).decode_rate


def together(clients: int, tokens: int) -> Measure:
    """Tokens a second of several clients together, from the first request to the last answer."""
    return lambda peer, salt: ask_together(
        peer.url, [prompt(5, f"{salt} {client}") for client in range(clients)], tokens
    )


def _pair(
    name: str, measure: Measure, ours: Peer, theirs: Peer, *, goal: Goal | None, lower: bool
) -> tuple[Row, Callable[[str], float], Callable[[str], float]]:
    row = Row(name=name, goal=goal, inverse=lower)
    return row, partial(measure, ours), partial(measure, theirs)


def equal_rows(ours: Peer, theirs: Peer, rounds: int) -> list[Row]:
    """Compare with the equal peer."""
    pair = partial(_pair, ours=ours, theirs=theirs)
    return take_turns(
        [
            pair("TTFT cold, ~220 tokens (s)", ttft(130), goal=Goal(bound=1 / 1.05), lower=True),
            pair(
                "TTFT cold, ~2,000 tokens (s)", ttft(_LONG_WORDS), goal=Goal(bound=1.2), lower=True
            ),
            pair("TTFT of the same ~220 tokens again (s)", ttft_again(130), goal=None, lower=True),
            pair(
                "decode, 1 client x 64 (tokens/s)", decode(64), goal=Goal(bound=0.97), lower=False
            ),
            pair(
                "total, 8 clients x 64 (tokens/s)",
                together(8, 64),
                goal=Goal(bound=1.1),
                lower=False,
            ),
            pair(
                "total, 16 clients x 64 (tokens/s)",
                together(16, 64),
                goal=Goal(bound=1.1),
                lower=False,
            ),
        ],
        rounds,
    )


def installed_rows(ours: Peer, theirs: Peer, rounds: int) -> list[Row]:
    """Compare with the peer as installed; short."""
    pair = partial(_pair, ours=ours, theirs=theirs)
    return take_turns(
        [
            pair("TTFT cold, ~220 tokens (s)", ttft(130), goal=Goal(bound=15), lower=True),
            pair("decode, 1 client x 16 (tokens/s)", decode(16), goal=Goal(bound=2), lower=False),
            pair(
                "total, 8 clients x 16 (tokens/s)",
                together(8, 16),
                goal=Goal(bound=10),
                lower=False,
            ),
        ],
        rounds,
    )


def start_rows(pairs: dict[str, tuple[Peer, Peer]], rounds: int, out: Path) -> list[Row]:
    """Compare the time from the start of a process to its first answered token, files warm."""

    def start(peer: Peer, _salt: str) -> float:
        with (out / f"start {peer.name}.log").open("wb") as log:
            try:
                peer.start(log)
            finally:
                peer.stop()
        return peer.start_to_ready

    for pair in pairs.values():
        for peer in pair:
            start(peer, "warms the files up")
    rows = [
        (Row(name=name, goal=Goal(bound=2), inverse=True), partial(start, a), partial(start, b))
        for name, (a, b) in pairs.items()
    ]
    return take_turns(rows, rounds)


def gap_rows(latency: Peer, throughput: Peer, theirs: Peer, rounds: int, out: Path) -> list[Row]:
    """Let 2,000 tokens arrive while 4 clients stream.

    The peer is started for each round: it goes on with answers whose clients have left.
    """
    rows = {
        key: Row(name=name, goal=Goal(bound=bound, at_most=most), inverse=False)
        for key, (name, bound, most) in {
            "latency gap": ("--prefill latency: longest gap, and the usual (s)", 4, True),
            "latency cost": ("--prefill latency: prefill beside streams, and alone (s)", 2, True),
            "throughput gap": ("--prefill throughput: longest gap, and the usual (s)", 8, True),
            "throughput cost": (
                "--prefill throughput: prefill beside streams, and alone (s)",
                1.4,
                True,
            ),
            "peer gap": ("longest gap of mlx_lm.server equal, and ours (latency) (s)", 20, False),
        }.items()
    }
    for number in range(rounds):
        for name, peer in (("latency", latency), ("throughput", throughput)):
            salt = f"gaps {name} {number}"
            met = interrupt(peer.url, _LONG_WORDS, salt, streams=4, settle=4)
            alone = ttft(_LONG_WORDS)(peer, f"alone {salt}")
            _note_gap(rows, name, met, alone)
            if name == "latency":
                ours = met.worst
        with _running([theirs], out):
            peers = interrupt(theirs.url, _LONG_WORDS, f"gaps peer {number}", streams=4, settle=4)
        rows["peer gap"].first.append(peers.worst)
        rows["peer gap"].second.append(ours)
        print(
            f"  round {number + 1}: " + ", ".join(f"{r.first[-1]:.3g}" for r in rows.values()),
            flush=True,
        )
    return list(rows.values())


def _note_gap(rows: dict[str, Row], name: str, met: Interruption, alone: float) -> None:
    rows[f"{name} gap"].first.append(met.worst)
    rows[f"{name} gap"].second.append(met.usual)
    rows[f"{name} cost"].first.append(met.prefill)
    rows[f"{name} cost"].second.append(alone)


@contextmanager
def _running(peers: list[Peer], out: Path) -> Iterator[None]:
    with ExitStack() as stack:
        for peer in peers:
            log = stack.enter_context((out / f"{peer.name}.log").open("wb"))
            stack.callback(peer.stop)
            peer.start(log)
        yield


def main() -> None:
    options = _options()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    model = options.model or _starter()
    cache = Paths.from_environ(os.environ).cache
    plan = prepare_compute(blas="auto", dequantize="auto", cache=cache, environ=os.environ)
    float32 = copy_model(model, out / "float32", unpack=True)
    packed = copy_model(model, out / "packed", unpack=False)
    equal, installed = mlx_lm_equal(float32, cache), mlx_lm_as_installed(packed)
    # The peer decodes up to 32 rows together; ours does 8 unless told.
    ours = mlxbun(model, "--batch", "16")
    tables: dict[str, tuple[tuple[str, str], list[Row]]] = {}
    servers = ("mlxbun", "peer")
    if "equal" in options.only:
        with _running([ours, equal], out):
            tables["mlx_lm.server equal"] = (servers, equal_rows(ours, equal, options.rounds))
    if "installed" in options.only:
        with _running([ours, installed], out):
            rows = installed_rows(ours, installed, options.short_rounds)
            tables["mlx_lm.server as installed"] = (servers, rows)
    if "start" in options.only:
        pairs = {
            "equal: same float32 folder (s)": (mlxbun(float32), equal),
            "as installed: 4-bit folder (s)": (mlxbun(model), installed),
        }
        tables["start to first answer"] = (servers, start_rows(pairs, options.rounds, out))
    if "gaps" in options.only:
        latency = mlxbun(model, "--prefill", "latency", name="latency")
        throughput = mlxbun(model, "--prefill", "throughput", name="throughput")
        with _running([latency, throughput], out):
            rows = gap_rows(latency, throughput, equal, options.rounds, out)
            tables["2,000 tokens arrive while 4 clients stream"] = (("first", "second"), rows)
    if "inside" in options.only:
        server = mlxbun(float32)
        with _running([server], out):
            rows = inside(server, float32, plan, cache, options.rounds)
            tables["inside"] = (("first", "second"), rows)
    _report(tables, out)


def _report(tables: dict[str, tuple[tuple[str, str], list[Row]]], out: Path) -> None:
    machine = probe_machine()
    print(f"\n{machine.processor}, {machine.cores} cores, {platform.system()}, ", end="")
    print(f"{datetime.now(UTC):%Y-%m-%d}. Medians; ratios are of pairs, with their quartiles.\n")
    for title, (columns, rows) in tables.items():
        print(table(title, columns, rows) + "\n")
    kept = {title: [asdict(row) for row in rows] for title, (_, rows) in tables.items()}
    file = out / f"serve {datetime.now(UTC):%Y-%m-%d %H%M}.json"
    file.write_text(json.dumps(kept, indent=2, ensure_ascii=False))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="a quantized model folder [the starter]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison [5]")
    parser.add_argument("--short-rounds", type=int, default=5, help="rounds as installed [5]")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="[all]")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    return parser.parse_args()


def _starter() -> Path:
    from core.download import fetch_starter

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
