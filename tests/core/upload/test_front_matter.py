"""The block at the top of a card."""

from __future__ import annotations

import pytest
from huggingface_hub import RepoCard

from core.upload.front_matter import split_card, texts, write_block


def test_a_card_in_two_parts() -> None:
    front = split_card("---\nlicense: mit\ntags:\n- a\n---\n# Title\n")
    assert front.block == "---\nlicense: mit\ntags:\n- a\n---\n"
    assert front.data == {"license": "mit", "tags": ["a"]}
    assert front.body == "# Title\n"
    assert split_card("# Title\n---\nx: 1\n---\n").data == {}
    assert split_card("---\r\nlicense: mit\r\n---\r\nText").data == {"license": "mit"}
    assert split_card("---\nlicense: mit\n---").data == {"license": "mit"}


@pytest.mark.parametrize(
    "block",
    ["- a\n- b", "a: [", "a: !!python/object:os.system x", "[" * 5000, "just text", "a: b: c",
     "? " * 5000, "x: " + "y" * 300_000],
)  # fmt: skip
def test_blocks_that_cannot_be_read(block: str) -> None:
    assert split_card(f"---\n{block}\n---\nText").data == {}


def test_aliases_do_not_grow() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert "a59" in split_card("---\n" + "\n".join(lines) + "\n---\n").data


def test_what_is_written_is_read_by_the_hubs_library() -> None:
    data = {"license": "mit", "language": "no", "tags": ["a: b", "ü"], "n": {"bits": 4}}
    block = write_block(data)
    assert split_card(block).data == data
    assert RepoCard(f"{block}\nText").data.to_dict() == data  # type: ignore[no-untyped-call]
    assert write_block({}) == ""


def test_texts() -> None:
    assert texts("a") == ("a",)
    assert texts(["a", 1, "", "b", "x" * 300]) == ("a", "b")
    assert texts(None) == texts({"a": 1}) == ()
