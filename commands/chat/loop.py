"""The chat itself: takes what is said, asks the model, keeps what came of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from commands._shared.failure import exit_code
from commands._shared.usage import plain_usage
from commands.chat.answer import Answer, ask
from commands.chat.interrupts import end_program
from commands.chat.toolbox import MOST_ROUNDS, call_note
from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams, ToolUse
from core.errors import ContextTooLong, MlxbunError, UsageProblem
from core.sessions.conversation import apply, resulted, said
from core.sessions.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from commands._shared.console import Console
    from commands.chat.diary import Diary
    from commands.chat.interrupts import Interrupts
    from commands.chat.lines import Lines
    from commands.chat.models import Models
    from commands.chat.screen import Screen
    from commands.chat.toolbox import Toolbox
    from core.engine.events import Usage
    from core.sessions.conversation import Call, Conversation

# What stands for the answer where Ctrl-C has stopped the calls before it.
_CUT = Answer(text="", reasoning="", finish="cut", usage=None, seconds=0, failure=None)
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
        toolbox: Toolbox | None = None,
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
        self._toolbox = toolbox

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
        """Let the model answer the conversation as it is after an entry, looking things up."""
        conversation = apply(self.diary.conversation, entry)
        try:
            answer = self._answer(conversation, lambda: self.diary.add(entry))
        except ContextTooLong as problem:
            raise UsageProblem(
                f"With this message the conversation has {problem.prompt_tokens} tokens or more, "
                f"and the context holds {problem.limit}; the message was not added.",
                hint=_FULL,
            ) from problem
        rounds = 0
        while answer.calls:
            if self._look_up(answer):
                answer = _CUT
                break
            rounds += 1
            answer = self._answer_with_results(may_call=rounds < MOST_ROUNDS)
        self._conclude(answer)

    def _answer(
        self,
        conversation: Conversation,
        on_accepted: Callable[[], object],
        *,
        may_call: bool = True,
    ) -> Answer:
        """Let the model answer a conversation.

        Raises:
            ContextTooLong: the conversation does not fit.
        """
        toolbox = self._toolbox
        use = toolbox.use if toolbox else ToolUse()
        request = GenerationRequest(
            prompt=ChatPrompt(
                messages=conversation.prompt(), tools=toolbox.declared if toolbox else ()
            ),
            sampling=SamplingParams(temperature=self.temperature),
            tools=use if may_call else replace(use, mode="none"),
        )
        return ask(
            self.models.engine,
            request,
            screen=self._screen,
            interrupts=self.interrupts,
            on_accepted=on_accepted,
            on_reasoning=self.console.aside,
        )

    def _answer_with_results(self, *, may_call: bool) -> Answer:
        if not may_call:
            self.console.note(f"[{MOST_ROUNDS} rounds of calls; the model has to answer now]")
        try:
            return self._answer(self.diary.conversation, _nothing, may_call=may_call)
        except ContextTooLong as problem:
            raise UsageProblem(
                f"With what was looked up the conversation has {problem.prompt_tokens} tokens or "
                f"more, and the context holds {problem.limit}.",
                hint=_FULL,
            ) from problem

    def _look_up(self, answer: Answer) -> bool:
        """Make the calls of an answer and keep their results; return whether Ctrl-C stopped it."""
        stopped: list[bool] = []
        self._keep(answer)
        with self.interrupts.calling(lambda: stopped.append(True)):
            for number, call in enumerate(answer.calls, 1):
                if not stopped and self._toolbox:
                    self.console.note(call_note(call))
                    result = self._result(self._toolbox, call, number)
                    if result is None:
                        return True
                    self.diary.add(resulted(call, result))
                    self._tell_program(call, result)
        return bool(stopped)

    def _result(self, toolbox: Toolbox, call: Call, number: int) -> str | None:
        """Return the result of a call; None: Ctrl-C ended it."""
        try:
            with self.interrupts.calling(end_program):
                return toolbox.result(call, number=number)
        except KeyboardInterrupt:
            return None

    def _keep(self, answer: Answer) -> None:
        self.diary.add(
            said(
                "assistant",
                answer.text,
                finish=answer.finish,
                reasoning=answer.reasoning,
                calls=answer.calls,
            )
        )
        if self.console.json_mode:
            self.console.event(_as_json(answer))

    def _tell_program(self, call: Call, result: str) -> None:
        if self.console.json_mode:
            made = {"name": call.name, "arguments": call.arguments, "result": result}
            self.console.event({"event": "tool_call", **made})

    def _conclude(self, answer: Answer) -> None:
        if answer.text or answer.failure is None:
            self._keep(answer)
        if answer.failure is not None:
            raise answer.failure
        if answer.usage is None:
            after = f" after {answer.seconds:.1f} s" if answer.seconds else ""
            self.console.note(f"[stopped{after}]")
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


def _nothing() -> None:
    """Do nothing: the question is in the file already."""


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
