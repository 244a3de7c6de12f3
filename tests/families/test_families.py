"""Answers beside other requests equal those of mlx-lm's own loop. See docs/families.md."""

from __future__ import annotations

import sys
from importlib.metadata import version

import pytest

from tests.core.fit.tiny_families import CRASHES, UNBUILDABLE
from tests.families.child import Verdict
from tests.families.run import run_families
from tests.families.table import PAGE, checked, read_page, sample, shown_mode

_SAMPLE = sample(read_page().number)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    return run_families(_SAMPLE)


@pytest.mark.slow  # 3 minutes on two cores, all of them in the first one's fixture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", _SAMPLE)
def test_answers_do_not_depend_on_company(family: str, verdicts: dict[str, Verdict]) -> None:
    assert verdicts[family].faults == {}
    assert shown_mode(verdicts[family]) == read_page().modes[family]


def test_the_page_is_of_this_mlx_lm_and_names_every_family() -> None:
    page = read_page()
    assert page.mlx_lm == version("mlx-lm"), "run `make test-families` again"
    assert sorted(page.modes) == sorted(checked())
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| {name} | {why} |" in text for name, why in (UNBUILDABLE | CRASHES).items())


def test_samples_differ_and_reach_every_family() -> None:
    assert sample(1) != sample(2)
    assert sample(1) == sample(1)
    assert {name for number in range(40) for name in sample(number)} == set(checked())


_CRASHING = """
import json, os, sys
for name in sys.argv[1:]:
    print(json.dumps({"started": name}), flush=True)
    if name == "bad":
        os.abort()
    print(json.dumps({"family": name}), flush=True)
"""


def test_a_crash_is_a_named_failure_and_the_others_are_run() -> None:
    names = ["one", "two", "bad", "four", "five", "six"]
    found = run_families(names, command=[sys.executable, "-c", _CRASHING])
    assert sorted(found) == sorted(names)
    faults = {name: verdict.faults for name, verdict in found.items() if verdict.faults}
    assert faults == {"bad": {"process": "ended with -6"}}


def test_a_child_that_cannot_start_ends_the_run() -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        run_families(["one"], command=[sys.executable, "-c", "raise SystemExit(3)"])


def test_answers_of_one_family_do_not_depend_on_company() -> None:
    (verdict,) = run_families(["mamba2"]).values()
    assert verdict.faults == {}
    assert (verdict.mode, verdict.ties) == ("joined", 0)
