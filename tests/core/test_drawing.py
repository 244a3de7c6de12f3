"""Pictures: a path that cannot be written is refused before anything is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.drawing import check_picture
from core.errors import BackendMissing, UsageProblem


def test_only_png_and_svg_files_in_a_folder_are_accepted(tmp_path: Path) -> None:
    check_picture(tmp_path / "fine.svg", example="bench.png")
    for name in ("bench.pdf", "bench", "png", ".png"):
        with pytest.raises(UsageProblem, match="neither") as refused:
            check_picture(tmp_path / name, example="bench.png")
        assert refused.value.hint == "Name it for example bench.png."
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UsageProblem, match="is a folder"):
        check_picture(tmp_path / "folder.png", example="bench.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageProblem, match="not a folder that takes files"):
        check_picture(tmp_path / "file" / "sweep.svg", example="sweep.svg", own_svg=True)


def test_matplotlib_is_required_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_name: str) -> Any:
        return None

    monkeypatch.setattr("core.drawing.find_spec", nothing)
    with pytest.raises(BackendMissing) as missing:
        check_picture(tmp_path / "fine.svg", example="bench.png")
    assert missing.value.hint == "Run `pip install 'mlxbun[plot]'`."
    check_picture(tmp_path / "sweep.svg", example="sweep.svg", own_svg=True)
    with pytest.raises(BackendMissing, match="PNG pictures") as missing:
        check_picture(tmp_path / "sweep.png", example="sweep.svg", own_svg=True)
    assert missing.value.hint == "Name an .svg file, or run `pip install 'mlxbun[plot]'`."
