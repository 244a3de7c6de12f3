"""`mlxbun generate`: one answer at the shell, from the same engine that serves."""

from __future__ import annotations

import json as json_format
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from commands._shared.completion import first_model
from commands._shared.engine import open_shown
from commands._shared.options import (
    AdapterOption,
    BlasOption,
    DequantizeOption,
    JsonOption,
    MaxTokensOption,
    MemoryOption,
    MinPOption,
    TemperatureOption,
    ThinkingOption,
    TopKOption,
    TopPOption,
)
from commands._shared.usage import plain_usage
from core.errors import EngineFailed, NotFound, UsageProblem
from core.registry.resolve import is_model_name
from core.sessions.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.engine.engine import Engine
    from core.engine.events import Finished
    from core.engine.request import GenerationRequest, GrammarSpec


def generate(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=first_model,
            metavar="[MODEL] [PROMPT]",
            help="Prompt, or '-' / nothing for stdin.",
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the text as it is, without chat template.")
    ] = False,
    system: Annotated[str | None, typer.Option("--system", help="System message.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option("--stop", help="End before this text; repeatable.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Make it reproducible.")] = None,
    json_schema: Annotated[
        Path | None,
        typer.Option(
            "--json-schema", help="Answer in JSON that this schema allows.", metavar="FILE"
        ),
    ] = None,
    grammar: Annotated[
        Path | None,
        typer.Option("--grammar", help="Answer in a text of this EBNF grammar.", metavar="FILE"),
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option("--regex", help="Answer in a text that this matches.", metavar="PATTERN"),
    ] = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    top_k: TopKOption = None,
    min_p: MinPOption = None,
    max_tokens: MaxTokensOption = None,
    thinking: ThinkingOption = None,
    memory_budget: MemoryOption = None,
    blas: BlasOption = None,
    dequantize: DequantizeOption = None,
    adapter: AdapterOption = None,
    json: JsonOption = False,
) -> None:
    """Generate one answer and stream it to the terminal.

    With --json-schema, --grammar or --regex the answer has that form, and the command fails if the
    answer is cut off before it is complete.
    """
    session: Session = context.obj
    console = session.console(json=json)
    settings = session.settings(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        max_tokens=max_tokens,
        thinking=thinking,
        memory_budget=memory_budget,
        blas=blas,
        dequantize=dequantize,
        adapter=adapter,
        batch=1,
    ).values
    from core.engine.start import Opening

    is_model = partial(
        is_model_name,
        hub_cache=session.paths.hub_cache,
        model_folders=settings.model_folders,
    )
    model, prompt = _split(words or [], is_model=is_model)
    form = _form(json_schema, grammar, regex)
    request = _request(prompt, raw=raw, system=system, stop=stop or [], seed=seed, form=form)
    engine = open_shown(
        model,
        settings=settings,
        session=session,
        console=console,
        opening=Opening(chats=not raw),
    )
    _answer(engine, request, console)
    # Not in a `finally`: whoever presses Ctrl-C does not wait for the step that is under way.
    engine.close()


def _split(words: list[str], *, is_model: Callable[[str], bool]) -> tuple[str | None, str]:
    """Tell MODEL from PROMPT: two words are both, `-` or none is stdin, one is the prompt.

    One word that is a model's whole name, with a pipe to read from, is the model.

    Args:
        words: of the command line.
        is_model: whether a word is the whole name of a model.
    """
    if len(words) > 2:
        raise UsageProblem(
            f"generate takes MODEL and PROMPT, but got {len(words)} words.",
            hint="Put the prompt in quotes.",
        )
    piped = sys.stdin is not None and not sys.stdin.isatty()
    if len(words) == 1 and piped and is_model(words[0]):
        words = [*words, "-"]
    model = words[0] if len(words) == 2 else None
    prompt = words[-1] if words else "-"
    prompt = _read_stdin(piped) if prompt == "-" else prompt
    if not prompt.strip():
        raise UsageProblem("The prompt is empty.")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise UsageProblem("The prompt is not UTF-8 text.")
    return model, prompt


def _read_stdin(piped: bool) -> str:
    if not piped:
        raise UsageProblem(
            "There is no prompt.", hint='Try: mlxbun generate "What is the capital of France?"'
        )
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as problem:
        raise UsageProblem("The prompt on stdin is not UTF-8 text.") from problem


def _form(json_schema: Path | None, grammar: Path | None, regex: str | None) -> GrammarSpec | None:
    """Return the form that the options ask for, if any; refuse what cannot be one."""
    from core.engine.request import GrammarSpec

    if sum(option is not None for option in (json_schema, grammar, regex)) > 1:
        raise UsageProblem("--json-schema, --grammar and --regex exclude each other.")
    if json_schema is not None:
        spec = GrammarSpec(kind="json_schema", source=_read_schema(json_schema))
    elif grammar is not None:
        spec = GrammarSpec(kind="ebnf", source=_read_text(grammar))
    elif regex is not None:
        spec = GrammarSpec(kind="regex", source=regex)
    else:
        return None
    _check(spec)
    return spec


def _check(form: GrammarSpec) -> None:
    """Refuse a form that is known to be impossible before a model is loaded."""
    from core.engine.grammar.screen import NotPossible
    from core.engine.grammar.syntax import check_form

    named = {"json_schema": "--json-schema", "ebnf": "--grammar", "regex": "--regex"}[form.kind]
    try:
        check_form(form)
    except NotPossible as problem:
        raise UsageProblem(f"{named} cannot be enforced: {problem}.") from problem


def _read_schema(file: Path) -> Any:
    try:
        schema = json_format.loads(_read_text(file))
    except (ValueError, RecursionError) as problem:
        raise UsageProblem(f"{file} is not JSON: {problem}.") from problem
    if not isinstance(schema, dict | bool):
        raise UsageProblem(f"{file} is not a JSON schema: it must hold an object.")
    return schema


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise NotFound(f"There is no file {file}.") from problem
    except OSError as problem:
        raise UsageProblem(f"{file} cannot be read: {problem.strerror}.") from problem
    except UnicodeDecodeError as problem:
        raise UsageProblem(f"{file} is not UTF-8 text.") from problem


def _request(
    prompt: str,
    *,
    raw: bool,
    system: str | None,
    stop: list[str],
    seed: int | None,
    form: GrammarSpec | None,
) -> GenerationRequest:
    from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams, TextPrompt

    if raw and system is not None:
        raise UsageProblem("--system needs the chat template, which --raw leaves out.")
    if "" in stop:
        raise UsageProblem("--stop must not be empty.")
    messages: list[dict[str, Any]] = []
    if system is not None:
        messages.append({"role": "system", "content": system})
    messages.append({"role": "user", "content": prompt})
    return GenerationRequest(
        prompt=TextPrompt(text=prompt) if raw else ChatPrompt(messages=tuple(messages)),
        sampling=SamplingParams(seed=seed),
        stop=tuple(stop),
        grammar=form,
    )


def _answer(engine: Engine, request: GenerationRequest, console: Console) -> None:
    from core.engine.events import Finished, ReasoningDelta, TextDelta

    generation = engine.submit(request)
    for warning in generation.warnings:
        console.note(f"mlxbun: {warning}")
    texts: list[str] = []
    thoughts: list[str] = []
    for event in generation:
        if isinstance(event, TextDelta):
            if thoughts and not texts:
                console.aside("\n\n")
            texts.append(event.text)
            if not console.json_mode:
                console.text(event.text)
        elif isinstance(event, ReasoningDelta):
            thoughts.append(event.text)
            console.aside(clean(event.text))
        elif isinstance(event, Finished):
            told = _Told("".join(texts), "".join(thoughts), generation.warnings)
            _conclude(event, told, engine, console)
            if request.grammar is not None and event.reason == "length":
                raise EngineFailed(
                    "The answer was cut off before it was complete: it is not of the form wanted.",
                    hint="Let it be longer with --max-tokens.",
                )


class _Told(NamedTuple):
    """What came of a request."""

    text: str
    reasoning: str
    warnings: tuple[str, ...]


def _conclude(end: Finished, told: _Told, engine: Engine, console: Console) -> None:
    if not console.json_mode:
        console.text("\n")
        return
    console.json(
        {
            "model": engine.info.model_id,
            "text": told.text,
            "reasoning": told.reasoning or None,
            "warnings": list(told.warnings),
            "finish_reason": end.reason,
            "usage": plain_usage(end.usage),
        }
    )
