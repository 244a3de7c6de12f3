"""`mlxbun quantize --plot`: a picture of what mixed precision chose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.bench.plot import check_picture
from core.errors import UsageProblem

if TYPE_CHECKING:
    from pathlib import Path

    from commands._shared.console import Console
    from core.quantize.recipe import Recipe


def check_plot(picture: Path, recipe: Recipe) -> None:
    """Refuse a picture that could not be drawn, before anything is loaded.

    Raises:
        UsageProblem: the recipe measures no sensitivities, or the file cannot be written.
        BackendMissing: matplotlib is not installed.
    """
    if recipe.target_bpw is None:
        raise UsageProblem(
            "--plot draws what mixed precision measures, and nothing is measured without "
            "--target-bpw.",
        )
    check_picture(picture)


def draw(model: Path, picture: Path, console: Console) -> None:
    """Draw the sweep of a quantized model."""
    from core.quantize.picture import draw_record, write_picture

    write_picture(draw_record(model), picture)
    console.note(f"picture: {picture}")
