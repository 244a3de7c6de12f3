"""Answers in company are those of mlx-lm's own loop, for every family. See docs/families.md."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.core.fit.tiny_families import UNBUILDABLE, families
from tests.families.child import Verdict
from tests.families.run import run_families
from tests.families.table import CRASHES, PAGE, checked, read_page, sample, shown_mode

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


def test_a_crash_is_a_named_failure() -> None:
    verdicts = run_families(["phi3small", "gpt2"])
    assert verdicts["phi3small"].faults["process"].startswith("ended with ")
    assert verdicts["gpt2"].faults == {}
    assert set(CRASHES) <= set(families())
