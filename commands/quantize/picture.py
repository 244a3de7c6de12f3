"""`mlxbun quantize --plot`: a picture of what mixed precision chose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import UsageProblem
from core.quantize.plot import check_plot, write_record_plot

if TYPE_CHECKING:
    from pathlib import Path

    from commands._shared.console import Console
    from core.quantize.recipe import Recipe


def check_picture(picture: Path, recipe: Recipe) -> None:
    """Refuse a picture that could not be drawn, before anything is loaded.

    Raises:
        UsageProblem: the recipe measures no sensitivities, or the file cannot be written.
        BackendMissing: matplotlib is needed and not installed.
    """
    if recipe.target_bpw is None:
        raise UsageProblem(
            "--plot draws what mixed precision measures, and nothing is measured without "
            "--target-bpw.",
        )
    check_plot(picture)


def draw(model: Path, picture: Path, console: Console) -> None:
    """Draw the sweep that lies with a quantized model.

    Raises:
        MlxbunError: there is none, or the picture cannot be written.
    """
    write_record_plot(picture, model)
    console.note(f"picture: {picture}")
