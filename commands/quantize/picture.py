"""`mlxbun quantize --plot`: a picture of the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.drawing import check_picture
from core.errors import UsageProblem
from core.quantize.plot import write_record_plot

if TYPE_CHECKING:
    from pathlib import Path

    from commands._shared.console import Console
    from core.quantize.recipe import Recipe


def check_plot(picture: Path, recipe: Recipe) -> None:
    """Refuse a picture that could not be drawn, before anything is loaded.

    Raises:
        UsageProblem: the recipe measures no sensitivities, or the file cannot be written.
        BackendMissing: matplotlib is needed and not installed.
    """
    if recipe.target_bpw is None:
        raise UsageProblem(
            "--plot needs --target-bpw: it draws the sweep of mixed precision.",
        )
    check_picture(picture, example="sweep.svg", own_svg=True)


def draw(model: Path, picture: Path, console: Console) -> None:
    """Draw the sweep of a quantized model.

    Raises:
        MlxbunError: there is none, or the picture cannot be written.
    """
    write_record_plot(picture, model)
    console.note(f"picture: {picture}")
