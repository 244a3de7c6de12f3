"""The table for long names: at every width readable, and whole where it goes to a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands._shared.listing import Column, Row, columns_of, lay_out

COLUMNS = [
    Column(heading="MODEL"),
    Column(heading="TYPE", least=4),
    Column(heading="SIZE", right=True),
    Column(heading="CAN"),
]
ROWS = [
    Row(cells=("org/short", "llama", "9 MB", "-")),
    Row(cells=("org/a-name-that-is-rather-long", "granitemoe", "12.5 GB", "tools")),
    Row(cells=("org/other", "bert", "1 B", "-"), below="not supported: it is an encoder"),
]


def test_without_a_width_every_row_is_one_whole_line() -> None:
    assert lay_out(COLUMNS, ROWS, width=None, styled=True) == [
        "MODEL                           TYPE           SIZE  CAN",
        "org/short                       llama          9 MB  -",
        "org/a-name-that-is-rather-long  granitemoe  12.5 GB  tools",
        "org/other                       bert            1 B  -",
    ]


def test_where_all_fits_it_is_one_line_and_remarks_below() -> None:
    assert lay_out(COLUMNS, ROWS, width=58)[1:] == [
        "org/short                       llama          9 MB  -",
        "org/a-name-that-is-rather-long  granitemoe  12.5 GB  tools",
        "org/other                       bert            1 B  -",
        "  not supported: it is an encoder",
    ]


def test_a_name_that_is_too_long_stands_above_its_row() -> None:
    assert lay_out(COLUMNS, ROWS, width=54)[1:4] == [
        "org/short                   llama          9 MB  -",
        "org/a-name-that-is-rather-long",
        "                            granitemoe  12.5 GB  tools",
    ]


def test_where_names_have_no_room_all_stand_above_their_rows() -> None:
    assert lay_out(COLUMNS, ROWS, width=30) == [
        "MODEL",
        "  TYPE           SIZE  CAN",
        "org/short",
        "  llama          9 MB  -",
        "org/a-name-that-is-rather-long",
        "  granitemoe  12.5 GB  tools",
        "org/other",
        "  bert            1 B  -",
        "  not supported: it is an",
        "  encoder",
    ]


def test_a_column_may_be_cut_where_it_is_narrow() -> None:
    assert lay_out(COLUMNS, ROWS, width=24)[5] == "  grani…  12.5 GB  tools"


def test_style_surrounds_names_and_remarks() -> None:
    lines = lay_out(COLUMNS, ROWS, width=58, styled=True)
    assert lines[1].startswith("\x1b[1morg/short\x1b[0m  ")
    assert lines[-1] == "\x1b[2m  not supported: it is an encoder\x1b[0m"


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("", 0), ("模型", 4), ("e\u0301", 1)])
def test_columns_of_a_text(text: str, columns: int) -> None:
    assert columns_of(text) == columns


_WORDS = st.text("abc-/模é", max_size=40)


@given(
    st.lists(st.tuples(_WORDS, _WORDS, st.text("1.", max_size=9), _WORDS), max_size=6),
    st.integers(1, 140),
)
def test_every_name_is_shown_whole_at_any_width(
    cells: list[tuple[str, str, str, str]], width: int
) -> None:
    lines = lay_out(COLUMNS, [Row(cells=each) for each in cells], width=width)
    assert len(cells) < len(lines) <= 2 * len(cells) + 2
    for name, *_ in cells:
        assert any(line.startswith(name) for line in lines)
