"""The chat itself: takes what is said, asks the model, keeps what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands._shared.failure import exit_code
from commands._shared.usage import plain_usage
from commands.chat.answer import ask
from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams
from core.errors import ContextTooLong, MlxbunError, UsageProblem
from core.sessions.conversation import apply, said
from core.sessions.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from commands._shared.console import Console
    from commands.chat.answer import Answer
    from commands.chat.diary import Diary
    from commands.chat.interrupts import Interrupts
    from commands.chat.lines import Lines
    from commands.chat.models import Models
    from commands.chat.screen import Screen
    from core.engine.events import Usage

_FULL = "/undo takes the last turn back, and a new chat starts empty; nothing is lost."


class Chat:
    """One run of `mlxbun chat`, after everything was opened.

    Attributes:
        models: the model.
        diary: the conversation.
        console: where notes go.
        interrupts: what Ctrl-C does.
        temperature: of the answers to come; None: the model's.
        stats: tell after each answer what it took.
        leaving: end after this line.
    """

    def __init__(
        self,
        *,
        models: Models,
        diary: Diary,
        lines: Lines,
        screen: Screen,
        console: Console,
        interrupts: Interrupts,
        stats: bool,
    ) -> None:
        self.models = models
        self.diary = diary
        self.console = console
        self.interrupts = interrupts
        self.temperature: float | None = None
        self.stats = stats
        self.leaving = False
        self._lines = lines
        self._screen = screen

    def run(self, commands: Callable[[Chat, str], object]) -> int:
        """Take messages until there are no more; return the exit code of the first error, or 0.

        Args:
            commands: does what a line with a slash in front says.

        Raises:
            MlxbunError: the model is gone.
        """
        code = 0
        while not self.leaving and (line := self._lines.read()) is not None:
            try:
                self._take(clean(line), commands)
            except MlxbunError as error:
                if self.models.lost:
                    raise
                self.console.error(error, event="refused")
                code = code or exit_code(error)
        return code

    def retry(self) -> None:
        """Ask the last question again."""
        question = self.diary.conversation.question
        if question is None:
            raise UsageProblem("There is no question to ask again.", hint="Ask one first.")
        self._ask({"type": "retry"})

    def show(self, text: str) -> None:
        """Show an answer of earlier."""
        self._screen.push(clean(text))
        self._screen.finish()

    def _take(self, text: str, commands: Callable[[Chat, str], object]) -> None:
        if not text.strip():
            return
        if text.startswith("/") and not text.startswith("//"):
            commands(self, text)
        else:
            self._ask(said("user", text[1:] if text.startswith("//") else text))

    def _ask(self, entry: Mapping[str, Any]) -> None:
        """Let the model answer the conversation as it is after an entry."""
        conversation = apply(self.diary.conversation, entry)
        request = GenerationRequest(
            prompt=ChatPrompt(messages=conversation.prompt()),
            sampling=SamplingParams(temperature=self.temperature),
        )
        try:
            answer = ask(
                self.models.engine,
                request,
                screen=self._screen,
                interrupts=self.interrupts,
                on_accepted=lambda: self.diary.add(entry),
                on_reasoning=self.console.aside,
            )
        except ContextTooLong as problem:
            raise UsageProblem(
                f"With this message the conversation has {problem.prompt_tokens} tokens or more, "
                f"and the context holds {problem.limit}; the message was not added.",
                hint=_FULL,
            ) from problem
        self._conclude(answer)

    def _conclude(self, answer: Answer) -> None:
        if answer.text or answer.failure is None:
            entry = said("assistant", answer.text, finish=answer.finish, reasoning=answer.reasoning)
            self.diary.add(entry)
            if self.console.json_mode:
                self.console.event(_as_json(answer))
        if answer.failure is not None:
            raise answer.failure
        if answer.usage is None:
            self.console.note(f"[stopped after {answer.seconds:.1f} s]")
            return
        if answer.finish == "length":
            self.console.note(self._why_cut(answer.usage))
        if self.stats:
            self.console.reply(_measured(answer.usage))

    def _why_cut(self, usage: Usage) -> str:
        limit = self.models.engine.info.context_window
        if usage.prompt_tokens + usage.completion_tokens >= limit:
            return f"[cut: the context of {limit} tokens is full. {_FULL}]"
        return f"[cut at {usage.completion_tokens} tokens, the limit that --max-tokens sets]"


def _as_json(answer: Answer) -> dict[str, Any]:
    return {
        "event": "answer",
        "text": answer.text,
        "reasoning": answer.reasoning or None,
        "finish_reason": answer.finish,
        "usage": answer.usage and plain_usage(answer.usage),
        "seconds": round(answer.seconds, 3),
    }


def _measured(usage: Usage) -> str:
    speed = ""
    if usage.completion_tokens > 1 and usage.decode_seconds > 0:
        speed = f"{(usage.completion_tokens - 1) / usage.decode_seconds:.1f} tokens/s, "
    return (
        f"[{speed}first after {usage.prefill_seconds:.2f} s; "
        f"{usage.completion_tokens} tokens; "
        f"{usage.cached_tokens} of {usage.prompt_tokens} prompt tokens cached]"
    )
