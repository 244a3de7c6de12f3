"""The documentation in the package is that of `docs`."""

from __future__ import annotations

from scripts.reference import PAGES, reference_pages


def test_the_pages_are_up_to_date() -> None:
    there = {file.name: file.read_text(encoding="utf-8") for file in PAGES.glob("*.md")}
    assert there == reference_pages(), "run: make docs"


def test_the_pages_need_no_other_files() -> None:
    pages = reference_pages()
    assert "architecture.md" not in pages
    assert "[json.md](json.md)" in pages["cli.md"]
    for text in pages.values():
        assert "![" not in text
        assert "](../" not in text
