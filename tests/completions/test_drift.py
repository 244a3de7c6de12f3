"""The table and the scripts are those that `make completions` makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbun_cli.completion.generate import SCRIPT_FOLDER, generated


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_a_generated_file_is_what_it_would_be_now(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == generated()[path], "options have changed: run `make completions`"


def test_no_other_script_is_left() -> None:
    assert set(SCRIPT_FOLDER.iterdir()) == {p for p in generated() if p.parent == SCRIPT_FOLDER}


def test_zsh_knows_its_script_by_the_first_line() -> None:
    assert (SCRIPT_FOLDER / "_mlxbun").read_text().startswith("#compdef mlxbun\n")
