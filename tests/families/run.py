"""Runs families in child processes, so that a crash is a named failure."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.families.child import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_PROCESSES = 2
_CHILD = (sys.executable, "-m", "tests.families.child")


def run_families(
    names: Sequence[str],
    on_verdict: Callable[[Verdict], object] = lambda _: None,
    *,
    command: Sequence[str] = _CHILD,
) -> dict[str, Verdict]:
    """Return the verdicts on families, by name.

    Args:
        names: of the families.
        on_verdict: called with each as it comes, from any thread.
        command: starts a child process, with the names behind it.
    """

    def run(share: Sequence[str]) -> list[Verdict]:
        verdicts: list[Verdict] = []
        while len(verdicts) < len(share):
            for verdict in _run_child([*command, *share[len(verdicts) :]]):
                verdicts.append(verdict)
                on_verdict(verdict)
        return verdicts

    shares = [names[start::_PROCESSES] for start in range(_PROCESSES)]
    with ThreadPoolExecutor(_PROCESSES) as pool:
        found = [verdict for verdicts in pool.map(run, shares) for verdict in verdicts]
    return {verdict.family: verdict for verdict in sorted(found, key=lambda each: each.family)}


def _run_child(command: Sequence[str]) -> Iterator[Verdict]:
    """Yield verdicts until the process ends; it may end before its last family."""
    started = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout
        for line in child.stdout:
            told = json.loads(line)
            if "started" in told:
                started = told["started"]
            else:
                started = None
                yield Verdict(**told)
    if started:
        yield Verdict(family=started, faults={"process": f"ended with {child.returncode}"})
    elif child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}")
