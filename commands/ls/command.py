"""The command: which models, in which order, and what is said beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import folders, listed_models, model_types, quantizations
from commands._shared.listing import lay_out
from commands._shared.options import SETTINGS, JsonOption
from commands.ls.table import CardColumn, columns_for, has_footnote, row_for
from core.errors import UsageProblem
from core.registry.selection import SortKey, Wanted, arrange, quantization_test, select
from core.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.registry.library import ModelCard


def ls(
    context: typer.Context,
    part: Annotated[
        str,
        typer.Argument(autocompletion=listed_models, metavar="PART", help="A part of the name."),
    ] = "",
    all_revisions: Annotated[
        bool, typer.Option("--all-revisions", help="Every snapshot, with its commit and refs.")
    ] = False,
    min_size: Annotated[
        str | None, typer.Option("--min-size", help="At least so large.", metavar="SIZE")
    ] = None,
    max_size: Annotated[
        str | None, typer.Option("--max-size", help="At most so large.", metavar="SIZE")
    ] = None,
    quant: Annotated[
        str | None,
        typer.Option(
            "--quant",
            autocompletion=quantizations,
            help="4, 8-bit, mixed, none, bf16, mxfp4, ...",
            metavar="QUANT",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--type",
            autocompletion=model_types,
            help="Model type; * and ? are wild.",
            metavar="TYPE",
        ),
    ] = None,
    vision: Annotated[bool, typer.Option("--vision", help="Only models that see.")] = False,
    audio: Annotated[bool, typer.Option("--audio", help="Only models that hear.")] = False,
    tools: Annotated[bool, typer.Option("--tools", help="Only models that call tools.")] = False,
    thinking: Annotated[
        bool, typer.Option("--thinking", help="Only models that reason before they answer.")
    ] = False,
    sort: Annotated[
        SortKey,
        typer.Option(
            "--sort",
            help="By name, size, params, date or context; largest and newest first.",
            metavar="KEY",
        ),
    ] = SortKey.NAME,
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False,
    model_folders: Annotated[
        list[str] | None,
        typer.Option(
            "--model-folders",
            autocompletion=folders,
            help="A folder of models, too; repeatable.",
            metavar="FOLDER",
            rich_help_panel=SETTINGS,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the models in the Hugging Face cache and in folders of models."""
    from core.registry.library import library

    wanted = Wanted(
        part=part,
        min_bytes=_size("--min-size", min_size),
        max_bytes=_size("--max-size", max_size),
        quant=quant,
        model_type=kind,
        vision=vision,
        audio=audio,
        tools=tools,
        thinking=thinking,
    )
    if quant is not None:
        quantization_test(quant)  # a wrong one is told before anything is read
    session: Session = context.obj
    settings = session.settings(model_folders=_folders(model_folders)).values
    cards = library(session.paths, settings, all_revisions=all_revisions)
    chosen = arrange(select(cards, wanted), sort, backwards=reverse)
    console = session.console(json=json)
    if json:
        from commands.ls.plain import as_json

        console.json({"models": [as_json(card) for card in chosen]})
    elif chosen:
        columns = columns_for(
            all_revisions=all_revisions,
            dated=sort is SortKey.DATE,
            piped=console.width is None,
        )
        _show(chosen, columns, console)
        _sum_up(chosen, console, "snapshot" if all_revisions else "model")
    elif cards:
        console.note(f"None of the {len(cards)} models here fits what was asked for.")
    else:
        console.note(f"There are no models in {session.paths.hub_cache} yet.")
        console.note("  `mlxbun download starter` fetches a first one.")


def _show(cards: list[ModelCard], columns: list[CardColumn], console: Console) -> None:
    heads = [column.head for column in columns]
    rows = [row_for(card, columns) for card in cards]
    lines = lay_out(heads, rows, width=console.width, styled=console.styled)
    console.text("\n".join(lines) + "\n")


def _sum_up(cards: list[ModelCard], console: Console, thing: str) -> None:
    from core.registry.library import disk_bytes

    things = f"{len(cards)} {thing}{'s' if len(cards) > 1 else ''}"
    console.note(f"{things}, {format_bytes(disk_bytes(cards))} on disk")
    if console.width is not None and any(map(has_footnote, cards)):
        console.note("* mlxbun loads the text part")


def _folders(given: list[str] | None) -> list[str] | None:
    """Return folders as the setting takes them: from the root on."""
    if given and not all(given):
        raise UsageProblem("--model-folders must be a folder, not ''.")
    return [str(Path(each).absolute()) if each[0] != "~" else each for each in given or ()] or None


def _size(option: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_bytes(text)
    except ValueError:
        raise UsageProblem(
            f"{option} must be a size such as 500MB, 4GB or 4GiB, not {text!r}."
        ) from None
