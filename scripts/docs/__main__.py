"""`make docs` writes the page and what pictures are the same everywhere; `make pictures`, all."""

from __future__ import annotations

import sys

from scripts.docs.cli_page import cli_page
from scripts.docs.picture import draw
from scripts.docs.places import CLI_PAGE, picture_of
from scripts.docs.scenes import SCENES, Scene, play
from scripts.docs.terminal import COLUMNS
from scripts.reference import write_reference


def main(words: list[str]) -> None:
    """Write what is asked for; whatever else is missing, too. Copies for the vault come last."""
    CLI_PAGE.write_text(cli_page(), encoding="utf-8")
    for scene in SCENES:
        if scene.steady or "--all" in words or not picture_of(scene.verb).exists():
            _draw(scene)
    write_reference()


def _draw(scene: Scene) -> None:
    target = picture_of(scene.verb)
    target.parent.mkdir(exist_ok=True)
    picture = draw(play(scene), columns=COLUMNS, name=target.stem)
    target.write_text(picture, encoding="utf-8")


main(sys.argv[1:])
