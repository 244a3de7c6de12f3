"""docs/families.md: how every family runs. Written by the whole run, read by the sample.

python -m tests.families.table
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tests.core.fit.tiny_families import CRASHES, UNBUILDABLE, safe_families
from tests.families.run import run_families
from tests.families.situations import NEAR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.families.child import Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "families.md"
_SAMPLE = 40  # families; less than 5 minutes on two cores

_TEXT = """\
# Model families

Answers must not depend on which other requests run at the same time. `make test-families` checks
this for every family in mlx-lm that can be built as a tiny random model on a CPU: requests that run
alone, together with prompts of other lengths, that join late, that continue a conversation from the
prompt cache, with `n = 3`, and with long prompts computed in chunks. Each log-probability must be
within {near:g} nats of mlx-lm's own loop, which computes one prompt at a time. The run also writes
this page. `make test-slow` checks a sample of {sample} families, a different one after each run.

How sequences run is decided when a model is loaded, by comparing a batch with single sequences:

- **batch**: prompts are computed together, and sequences decode together.
- **joined**: prompts are computed one at a time, and sequences decode together.
- **serial**: one sequence at a time. `/v1/capabilities` and `usage.lane` say so.

Run {number}, {day}: mlx-lm {mlx_lm}, mlx {mlx}. {summary}

| family | runs | why |
| --- | --- | --- |
{rows}

Not checked, because there is no tiny model of them for a CPU:

| family | why |
| --- | --- |
{rest}
"""
_RUN = re.compile(r"^Run (\d+), \S+: mlx-lm ([^,]+), mlx (\S+)\. ", re.MULTILINE)
_ROW = re.compile(r"^\| (\S+) \| (batch|joined|serial) \| .* \|$", re.MULTILINE)
_SHOWN = {"padded": "batch", "joined": "joined", "serial": "serial"}


@dataclass(frozen=True, kw_only=True)
class Page:
    """What docs/families.md says."""

    number: int
    """Of the last whole run."""
    mlx_lm: str
    """The version that it ran on."""
    modes: dict[str, str]
    """How families run, by name."""


def read_page() -> Page:
    """Return what docs/families.md says."""
    text = PAGE.read_text(encoding="utf-8")
    found = _RUN.search(text)
    assert found, f"{PAGE.name} does not say which run it is from"
    return Page(number=int(found[1]), mlx_lm=found[2], modes=dict(_ROW.findall(text)))


def checked() -> list[str]:
    """Return the families that the whole run checks."""
    return safe_families()


def sample(number: int) -> list[str]:
    """Return the families to check after a whole run: others after each.

    Args:
        number: of the run.
    """
    return sorted(random.Random(number).sample(checked(), _SAMPLE))


def shown_mode(verdict: Verdict) -> str:
    """Return how a family runs, in the words of the page."""
    return _SHOWN.get(verdict.mode, "batch")


def main() -> None:
    """Check every family; write the page when nothing is wrong."""
    number = read_page().number + 1 if PAGE.exists() else 1
    verdicts = run_families(checked(), _tell)
    if wrong := [verdict for verdict in verdicts.values() if verdict.faults]:
        print(f"{len(wrong)} of {len(verdicts)} families are wrong; {PAGE.name} is not written")
        sys.exit(1)
    PAGE.write_text(_page(number, verdicts), encoding="utf-8")
    print(f"{len(verdicts)} families agree with mlx-lm; see docs/{PAGE.name}")


def _tell(verdict: Verdict) -> None:
    faults = "; ".join(f"{where}: {what}" for where, what in verdict.faults.items())
    print(f"{verdict.family}: {faults or shown_mode(verdict)} ({verdict.nats:.1g})", flush=True)


def _page(number: int, verdicts: Mapping[str, Verdict]) -> str:
    rows = [f"| {each.family} | {shown_mode(each)} | {_why(each)} |" for each in verdicts.values()]
    return _TEXT.format(
        near=NEAR,
        sample=_SAMPLE,
        number=number,
        day=datetime.now(UTC).date().isoformat(),
        mlx_lm=version("mlx-lm"),
        mlx=version("mlx"),
        summary=_summary(list(verdicts.values())),
        rows="\n".join(rows),
        rest="\n".join(
            f"| {name} | {why} |" for name, why in sorted((UNBUILDABLE | CRASHES).items())
        ),
    )


def _why(verdict: Verdict) -> str:
    reasons = [verdict.reason] if verdict.reason else []
    if verdict.own > NEAR:
        reasons.append(
            f"mlx-lm's own loop differs from itself by {verdict.own:.1g} nats with other chunks, "
            "which is the tolerance here."
        )
    return " ".join(reasons) or "-"


def _summary(verdicts: Sequence[Verdict]) -> str:
    counts = [sum(shown_mode(each) == mode for each in verdicts) for mode in _SHOWN.values()]
    exact = [each.nats for each in verdicts if each.own <= NEAR]
    ties = sum(each.ties for each in verdicts)
    return (
        f"{len(verdicts)} families: {counts[0]} batch, {counts[1]} joined, {counts[2]} serial.\n"
        f"Largest difference: {max(exact, default=0):.1g} nats. Tokens that differ, where the two\n"
        f"likeliest are within the tolerance: {ties}."
    )


if __name__ == "__main__":
    main()
