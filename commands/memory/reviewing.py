"""`mlxbun memory review`: runs that wait on a branch, accepted or rejected sentence by sentence."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import waiting_runs
from commands._shared.options import JsonOption
from commands.memory.options import VaultOption, opened
from core.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.memory.review import Review, Reviewed, WaitingRun
    from core.memory.reviewing import ReviewItem

_COLUMNS = {"run": "RUN", "made": "MADE", "articles": "ARTICLES"}
_ASK = "Accept? [y]es, [n]o, [q]uit without a change"
_ALL, _REST = "all", "rest"


def review(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(autocompletion=waiting_runs, help="A run; default: list the waiting runs."),
    ] = None,
    accept: Annotated[
        str | None,
        typer.Option("--accept", help="Sentences to accept: numbers, all, or rest.", metavar="N,N"),
    ] = None,
    reject: Annotated[
        str | None,
        typer.Option("--reject", help="Sentences to reject: numbers, all, or rest.", metavar="N,N"),
    ] = None,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """List the runs of `synthesize --review`, show one, and accept or reject its sentences.

    At a terminal, you decide on each sentence in turn; --accept and --reject decide without asking.
    Accepted sentences go into the articles in one commit; rejected ones do not come back.
    """
    from core.memory.review import decide, open_review, waiting

    session: Session = context.obj
    console = session.console(json=json)
    if run is None and (accept is not None or reject is not None):
        raise UsageProblem("--accept and --reject need a run.")
    memory = opened(context, vault)
    if run is None:
        _list(waiting(memory.git), console)
        return
    found = open_review(memory.git, run)
    if accept is not None or reject is not None:
        decisions: Mapping[str, bool] | None = _decided(found, accept, reject)
    elif console.json_mode or sys.stdin is None or not sys.stdin.isatty():
        _show(found, console)
        return
    else:
        decisions = _asked(found, console)
    if decisions is None:
        console.note("Nothing was changed; the run still waits.")
    else:
        _report(decide(memory.root, run, decisions), console)


def _list(runs: Sequence[WaitingRun], console: Console) -> None:
    if console.json_mode:
        console.json({"runs": [_run_json(each) for each in runs]})
    elif runs:
        rows = [
            {"run": each.run, "made": f"{each.when:%Y-%m-%d %H:%M}", "articles": each.articles}
            for each in runs
        ]
        console.table(rows, _COLUMNS)
    else:
        console.note("No run waits for a review.")


def _show(found: Review, console: Console) -> None:
    if console.json_mode:
        items = [_item_json(number, item) for number, item in enumerate(found.items, 1)]
        console.json({"run": _run_json(found.run), "items": items})
        return
    for number, item in enumerate(found.items, 1):
        console.lines(_item_lines(number, item))
    console.note("Decide with --accept and --reject: numbers, all, or rest.")


def _decided(found: Review, accept: str | None, reject: str | None) -> Mapping[str, bool]:
    """Return whether each item is accepted, as the options say.

    Raises:
        UsageProblem: they name no sentence, or contradict each other.
    """
    accepted, rejected = (_numbers(each, len(found.items)) for each in (accept, reject))
    every = set(range(1, len(found.items) + 1))
    if accepted is None and rejected is None:
        raise UsageProblem("Only one of --accept and --reject can be `rest`.")
    yes = every - (rejected or set()) if accepted is None else accepted
    no = every - (accepted or set()) if rejected is None else rejected
    if both := yes & no:
        raise UsageProblem(f"Sentence {min(both)} is both accepted and rejected.")
    chosen = dict.fromkeys(yes, True) | dict.fromkeys(no, False)
    return {item.id: chosen[n] for n, item in enumerate(found.items, 1) if n in chosen}


def _numbers(words: str | None, count: int) -> set[int] | None:
    """Return the numbers that an option names; None: the rest.

    Raises:
        UsageProblem: one is not the number of a sentence.
    """
    if words is None:
        return set()
    if words.strip() == _REST:
        return None
    if words.strip() == _ALL:
        return set(range(1, count + 1))
    numbers = {word.strip() for word in words.split(",")}
    known = {str(number) for number in range(1, count + 1)}
    if unknown := sorted(numbers - known):
        raise UsageProblem(
            f"{unknown[0]!r} is not the number of a sentence: 1 to {count}, all, or rest."
        )
    return set(map(int, numbers))


def _asked(found: Review, console: Console) -> Mapping[str, bool] | None:
    """Ask about one sentence after another; None: the user has quit."""
    decisions = {}
    for number, item in enumerate(found.items, 1):
        console.lines(_item_lines(number, item))
        answer = _answer(console)
        if answer is None:
            return None
        decisions[item.id] = answer
    return decisions


def _answer(console: Console) -> bool | None:
    while True:
        console.reply(_ASK)
        line = sys.stdin.readline()
        word = line.strip().lower()
        if not line or word in ("q", "quit"):
            return None
        if word in ("y", "yes", "n", "no"):
            return word[0] == "y"


def _report(done: Reviewed, console: Console) -> None:
    if console.json_mode:
        console.json(
            {
                "run": done.run,
                "commit": done.commit,
                "accepted": [item.text for item in done.accepted],
                "rejected": [item.text for item in done.rejected],
                "left": [item.text for item in done.left],
            }
        )
        return
    console.record(
        {
            "accepted": len(done.accepted),
            "rejected": len(done.rejected),
            "on Talk": len(done.left),
            "commit": done.commit,
        }
    )


def _run_json(run: WaitingRun) -> dict[str, Any]:
    return {
        "run": run.run,
        "branch": run.branch,
        "commit": run.commit,
        "made": run.when.isoformat(),
        "articles": list(run.articles),
    }


def _item_json(number: int, item: ReviewItem) -> dict[str, Any]:
    return {
        "number": number,
        "id": item.id,
        "article": item.article,
        "new_article": item.new_article,
        "kind": item.kind,
        "heading": item.heading,
        "text": item.text,
        "citations": [citation.line() for citation in item.citations],
        "replaces": list(item.replaces),
    }


def _item_lines(number: int, item: ReviewItem) -> Iterator[str]:
    place = f"{item.article}{' (new)' if item.new_article else ''}"
    place += f", {item.heading}" if item.heading else ""
    yield f"{number}. {place}: {item.text}"
    if item.kind == "citation":
        yield "   another citation of a sentence that is there"
    for citation in item.citations:
        yield f"   {citation.date or 'undated'}  “{citation.quote}”"
    for replaced in item.replaces:
        yield f"   replaces: {replaced}"
