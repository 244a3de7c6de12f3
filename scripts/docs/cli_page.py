"""docs/cli.md: every verb, argument, option, default and setting, read from the app itself."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from commands._shared.failure import EXIT_CODES, MEANINGS
from commands._shared.options import EVERYWHERE, SETTINGS
from core.settings import Settings, choices_of
from scripts.docs.places import DOCS, picture_of
from scripts.docs.verbs import read_app

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scripts.docs.verbs import Parameter, Verb

_OF_ALL = ("json", "help")  # options that are told once
_PAGES = {"ls": "library.md"}  # where a page is not called like its verb

_TOP = """\
# Commands

Everything that `mlxbun` takes; `mlxbun VERB --help` shows the same at the terminal. `make docs`
writes this page from the program.
"""

_STREAMS = """\
Data goes to stdout, everything else (notes, progress, errors) to stderr. Colors and bars appear on
a terminal only, and not where `NO_COLOR` is set or `TERM` is `dumb`. With `--json`, stdout is JSON
and nothing else, also when something goes wrong: [json.md](json.md) tells every key.

Options may stand before their verb or behind it; `--json` and those of one verb stand behind it.
"""

_SETTINGS = """\
A setting is a flag, else a variable, else a line of `~/.mlxbun/config.toml`, else its default:
`--batch 4`, `MLXBUN_BATCH=4` and `mlxbun config set batch 4` are the same one. `mlxbun config show`
tells where each value comes from.
"""

_CODES = """\
An error of ours is one sentence on stderr about what happened, and mostly another about what to do
next. `fit` also ends with 4 when it answers that a model does not fit.
"""

_VARIABLES = (
    ("MLXBUN_HOME", "settings, conversations and what was measured; `~/.mlxbun`"),
    ("MLXBUN_CACHE", "what can be made again; `~/.cache/mlxbun`"),
    ("MLXBUN_WIKI", "the memory vault; `~/.mlxbun/wiki`"),
    ("MLXBUN_OFFLINE", "`1`: as `--offline`; so do `HF_HUB_OFFLINE` and `TRANSFORMERS_OFFLINE`"),
    ("MLXBUN_DEBUG", "`1`: a defect of mlxbun shows its traceback"),
    ("NO_COLOR", "no colors and no bars, on a terminal either; so does `TERM=dumb`"),
    ("HF_HOME", "where the Hugging Face cache lies, as for huggingface_hub"),
    ("HF_HUB_CACHE", "the cache itself, where it lies elsewhere"),
    ("HF_ENDPOINT", "another Hub"),
    ("HF_TOKEN", "who you are to the Hub; else the token of `hf auth login`"),
)


def cli_page() -> str:
    """Return the whole page."""
    options, verbs = read_app()
    blocks = [
        _TOP,
        _overview(verbs),
        "## For every command\n",
        _STREAMS,
        _table(("option", ""), _rows_of_all(options)),
        *(_section(verb) for verb in verbs),
        "## Settings\n",
        _SETTINGS,
        _table(("setting", "option", "variable", "default", "meaning"), _setting_rows(verbs)),
        "## Variables\n",
        _table(("variable", ""), [(f"`{name}`", told) for name, told in _VARIABLES]),
        "## Exit codes\n",
        _CODES,
        _table(("code", "meaning", "errors"), _code_rows()),
    ]
    return "\n".join(blocks)


def variables() -> list[str]:
    """Return the variables that the page names, besides those of settings."""
    return [name for name, _ in _VARIABLES]


def _overview(verbs: Sequence[Verb]) -> str:
    rows = [(f"[`{verb.usage}`](#{_anchor(verb)})", verb.paragraphs[0]) for verb in verbs]
    return _table(("command", ""), rows)


def _rows_of_all(options: Sequence[Parameter]) -> Iterator[tuple[str, str]]:
    common = [option for option in options if option.panel == EVERYWHERE]
    for option in common:
        yield option.spelled, option.help
    yield "`--json`", "Print JSON and nothing else."
    yield "`--help`", "Show what a command takes, and exit."
    for option in options:
        if option not in common and option.key != "help":
            yield option.spelled, f"{option.help} Stands alone."


def _section(verb: Verb) -> str:
    blocks = [f"## {verb.name}\n", f"    mlxbun {verb.usage}\n", *map(_wrapped, verb.paragraphs)]
    blocks.append(f"![mlxbun {verb.name}]({picture_of(verb.name).relative_to(DOCS)})\n")
    own = [p for p in (*verb.arguments, *verb.among("")) if p.key not in _OF_ALL]
    panels = [p.panel for p in verb.parameters if p.panel not in ("", SETTINGS)]
    for panel in dict.fromkeys(panels):
        own += verb.among(panel)
    if own:
        blocks.append(_table(("", "", "default"), map(_row, own)))
    if settings := verb.among(SETTINGS):
        blocks.append(_wrapped(_settings_line(settings)))
    blocks.append(_wrapped(_more(verb)))
    return "\n".join(blocks)


def _row(parameter: Parameter) -> tuple[str, str, str]:
    spelled = parameter.spelled if parameter.is_option else f"`{parameter.spelled}`"
    default = "required" if parameter.required else parameter.default and f"`{parameter.default}`"
    return spelled, parameter.help, default


def _settings_line(settings: Sequence[Parameter]) -> str:
    names = (setting.spelled.strip("`").split(",")[0].split()[0] for setting in settings)
    spelled = ", ".join(f"`{name}`" for name in names)
    return f"[Settings](#settings) that it takes: {spelled}."


def _more(verb: Verb) -> str:
    page = _PAGES.get(verb.name, f"{verb.name.split()[0]}.md")
    told = f"[{page}]({page}), " if (DOCS / page).exists() else ""
    return f"More: {told}[JSON](json.md#{_anchor(verb)})."


def _setting_rows(verbs: Sequence[Verb]) -> Iterator[tuple[str, ...]]:
    options = {option.key: option.spelled for verb in verbs for option in verb.among(SETTINGS)}
    for field in fields(Settings):
        words = choices_of(field.name)
        told = field.metadata["help"]
        among = f" One of {', '.join(words)}." if words else ""
        variable = f"`MLXBUN_{field.name.upper()}`"
        option = options.get(field.name, "`MODEL`")
        yield f"`{field.name}`", option, variable, _default(field.default), told + among


def _default(value: Any) -> str:
    if value is None or value == ():
        return ""
    return f"`{int(value) if isinstance(value, float) and value.is_integer() else value}`"


def _code_rows() -> Iterator[tuple[str, str, str]]:
    for code, meaning in MEANINGS.items():
        kinds = [f"`{kind.__name__}`" for kind, its_code in EXIT_CODES.items() if its_code == code]
        yield str(code), meaning, ", ".join(kinds)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *(map(_escaped, row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def _escaped(cell: str) -> str:
    """Return a cell in which no bar ends it, and no star begins emphasis."""
    parts = cell.replace("|", "\\|").split("`")
    return "`".join(p if i % 2 else p.replace("*", "\\*") for i, p in enumerate(parts))


def _anchor(verb: Verb) -> str:
    return verb.name.replace(" ", "-")
