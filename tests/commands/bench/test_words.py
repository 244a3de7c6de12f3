"""`bench [MODEL]` and `bench history [MODEL]`, and whose option is whose."""

from __future__ import annotations

from typing import Any

import pytest

from commands.bench.words import read_words
from core.errors import UsageProblem

NONE_GIVEN: dict[str, Any] = {"words": None, "json": True, "limit": None, "rows": None}


@pytest.mark.parametrize(
    ("words", "history", "model"),
    [
        ([], False, None),
        (["smol"], False, "smol"),
        (["./history"], False, "./history"),
        (["history"], True, None),
        (["history", "smol"], True, "smol"),
        (["history", "history"], True, "history"),
    ],
)
def test_history_is_told_from_a_model(words: list[str], history: bool, model: str | None) -> None:
    asked = read_words(words, NONE_GIVEN)
    assert (asked.history, asked.model) == (history, model)


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (["a", "b"], {}, "one MODEL, but got 2: a, b"),
        (["history", "a", "b"], {}, "one MODEL"),
        (["a"], {"limit": 3}, "--limit belongs to `mlxbun bench history`"),
        (["history"], {"rows": "1"}, "--rows measures"),
        (["history"], {"memory_budget": 1.0}, "--memory-budget measures"),
    ],
)
def test_an_option_of_the_other_form_is_refused(
    words: list[str], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageProblem, match=said):
        read_words(words, NONE_GIVEN | options)
