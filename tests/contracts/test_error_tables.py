"""Every error type of ours has its own exit code and its own HTTP status."""

from __future__ import annotations

import inspect

import pytest

from commands._shared.failure import EXIT_CODES, exit_code
from commands.serve.failures import STATUSES
from core import errors


def all_errors() -> list[type[errors.MlxbunError]]:
    found = [errors.MlxbunError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return found


@pytest.mark.parametrize("kind", all_errors(), ids=lambda kind: kind.__name__)
def test_each_has_a_row_in_both_tables(kind: type[errors.MlxbunError]) -> None:
    assert 0 < EXIT_CODES[kind] < 126
    assert 400 <= STATUSES[kind] < 600


def test_the_tables_hold_nothing_else() -> None:
    assert set(EXIT_CODES) == set(STATUSES) == set(all_errors())


def test_errors_carry_no_codes() -> None:
    source = inspect.getsource(errors)
    assert not any(word in source for word in ("status_code", "exit_code ="))


def test_the_tree_in_the_docstring_names_every_error() -> None:
    assert errors.__doc__ is not None
    assert all(kind.__name__ in errors.__doc__ for kind in all_errors())


def test_a_type_without_a_row_is_not_guessed() -> None:
    class Stranger(errors.MlxbunError):
        pass

    with pytest.raises(KeyError):
        exit_code(Stranger("x"))
