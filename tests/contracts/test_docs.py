"""What the documentation says of the commands is what they do: pages, pictures, codes, settings."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer

from commands._shared.failure import EXIT_CODES, MEANINGS
from commands._shared.options import EVERYWHERE, SETTINGS
from commands._shared.verb import Verb as VerbClass
from commands._shared.verb import verbs_of
from core.settings import Settings
from mlxbun_cli.app import app
from mlxbun_cli.main import INTERRUPTED, UNREAD
from scripts.docs.cli_page import cli_page, variables
from scripts.docs.picture import draw, text_of
from scripts.docs.places import CLI_PAGE, DOCS, PICTURES, ROOT, picture_of
from scripts.docs.scenes import SCENES, Scene, play
from scripts.docs.terminal import COLUMNS
from scripts.docs.verbs import Verb, read_app

_, VERBS = read_app()
STEADY = [scene for scene in SCENES if scene.steady]
# Options that are called like a setting and are none.
_OTHERS = {
    ("eval", "max_tokens"),
    ("fit", "batch"),
    ("fuse", "adapter"),
    ("generate", "grammar"),
    ("import", "dequantize"),
    ("ls", "thinking"),
    ("memory eval", "model"),
    ("memory schedule", "model"),
    ("memory synthesize", "model"),
    ("quantize", "dequantize"),
}


def _commands(group: Any = None) -> list[Any]:
    """Return every command that can be run, as Typer has it."""
    found = []
    for _, command in verbs_of(group or typer.main.get_command(app)):
        found += _commands(command) if hasattr(command, "commands") else [command]
    return found


# The page


def test_the_page_is_what_the_app_says() -> None:
    assert CLI_PAGE.read_text(encoding="utf-8") == cli_page(), "run `make docs`"


def test_its_links_lead_somewhere() -> None:
    page = CLI_PAGE.read_text(encoding="utf-8")
    links = set(re.findall(r"\]\(([^)]+)\)", page))
    assert len(links) > 20
    for link in links:
        file, _, anchor = link.partition("#")
        target = DOCS / file if file else CLI_PAGE
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", variables())
def test_its_variables_are_read(name: str) -> None:
    """Look for the name in what reads variables: ours, and the pages of foreign ones."""
    sources = [path for part in ("core", "mlxbun_cli", "commands") for path in _sources(part)]
    assert any(f'"{name}"' in path.read_text(encoding="utf-8") for path in sources)


def _sources(part: str) -> list[Path]:
    return sorted((ROOT / part).rglob("*.py"))


# What all commands share


@pytest.mark.parametrize("command", _commands(), ids=lambda command: command.name)
def test_every_command_takes_what_all_take(command: Any) -> None:
    assert isinstance(command, VerbClass)
    options: dict[str, Any] = {name: each for each in command.params for name in each.opts}
    assert options["--json"].is_flag
    assert options["--quiet"] is options["-q"]
    assert options["--offline"].rich_help_panel == EVERYWHERE


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_options_that_are_settings_are_told_as_such(verb: Verb) -> None:
    defaults = {field.name: field.default for field in fields(Settings)}
    for option in (each for each in verb.parameters if each.is_option):
        is_setting = option.key in defaults and (verb.name, option.key) not in _OTHERS
        assert is_setting == (option.panel == SETTINGS), option
        if is_setting and defaults[option.key] not in (None, ()):
            assert option.default == f"{defaults[option.key]}".removesuffix(".0")
            assert option.spelled.startswith(f"`--{option.key.replace('_', '-')}")


# Exit codes


def test_every_code_has_its_meaning() -> None:
    assert set(MEANINGS) == {0, *EXIT_CODES.values(), INTERRUPTED, UNREAD}
    assert all(MEANINGS.values())


# Pictures


def test_every_verb_has_a_picture_and_nothing_else_has() -> None:
    names = [verb.name for verb in VERBS]
    assert [scene.verb for scene in SCENES] == names
    assert {path.name for path in PICTURES.iterdir()} == {picture_of(name).name for name in names}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.verb)
def test_a_picture_shows_its_verb_and_loads_nothing(scene: Scene) -> None:
    picture = picture_of(scene.verb).read_text(encoding="utf-8")
    assert len(picture) < 30_000
    words = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()}
    assert words <= {"svg", "style", "defs", "clipPath", "rect", "g", "circle", "text"}
    assert "url(http" not in picture
    shown = text_of(picture)
    typed = [line.removeprefix("$ ") for line in shown if line.startswith("$ ")]
    assert typed == list(scene.commands)
    assert any(command.startswith(f"mlxbun {scene.verb}") for command in typed)
    assert len(shown) > len(scene.commands)
    assert not any(word in picture for word in ("Traceback", "internal error", "/tmp/"))


@pytest.mark.parametrize("scene", STEADY, ids=lambda scene: scene.verb)
def test_a_picture_is_what_the_commands_print(scene: Scene) -> None:
    again = draw(play(scene), columns=COLUMNS, name="again")
    kept = picture_of(scene.verb).read_text(encoding="utf-8")
    assert text_of(again) == text_of(kept), "run `make docs`"
