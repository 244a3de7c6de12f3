"""`mlxbun chat --memory`: a scripted model calls the tools; what it is told, shown and kept."""

from __future__ import annotations

import io
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from commands._shared.console import Console
from commands._shared.streams import Streams
from commands.chat.diary import Diary
from commands.chat.interrupts import Interrupts
from commands.chat.loop import Chat
from commands.chat.screen import PlainScreen
from commands.chat.slash import run_command
from commands.chat.toolbox import MOST_CALLS, MOST_ROUNDS, Toolbox
from core.engine.events import Event, Finished, TextDelta, ToolCallDelta, Usage
from core.engine.generation import Generation
from core.engine.request import ChatPrompt, GenerationRequest
from core.errors import ContextTooLong
from core.memory.opening import open_memory
from core.memory.sources.raw import ReadLog
from core.memory.sources.sessions import read_session
from core.memory.tools import TOOLS, MemoryTools
from core.paths import Paths
from core.sessions.store import SessionStore, read_entries
from tests.core.memory.vaults import make_vault
from tests.jsondocs import check_output
from tests.processes import mlxbun
from tests.tiny import llama_config, make_model

Environ = dict[str, str]
Calls = Sequence[tuple[str, str]]
Step = str | Calls | Exception
SEARCH = ("memory_search", '{"query": "Lyon"}')
USAGE = Usage(
    prompt_tokens=9,
    completion_tokens=3,
    cached_tokens=0,
    lane="serial",
    prefill_seconds=0.1,
    decode_seconds=0.1,
)


class ScriptedEngine:
    """Answers with what a script says, and keeps what it was asked."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.info = SimpleNamespace(context_window=4096)
        self.asked: list[GenerationRequest] = []
        self._script = list(script)

    def submit(self, request: GenerationRequest) -> Generation:
        step = self._script.pop(0)
        if isinstance(step, Exception):
            raise step
        self.asked.append(request)
        generation = Generation(prompt_tokens=9)
        for event in self._events(step):
            generation.put(event)
        return generation

    def _events(self, step: str | Calls) -> list[Event]:
        if isinstance(step, str):
            return [TextDelta(text=step), Finished(reason="stop", usage=USAGE)]
        events: list[Event] = [TextDelta(text="Let me see.")]
        for index, (name, arguments) in enumerate(step):
            identity = f"call_{len(self.asked)}_{index}"
            events.append(ToolCallDelta(index=index, id=identity, name=name))
            events += [ToolCallDelta(index=index, arguments=each) for each in arguments]
        return [*events, Finished(reason="tool_calls", usage=USAGE)]

    def messages(self, number: int) -> tuple[Any, ...]:
        """Return the conversation of a request."""
        prompt = self.asked[number].prompt
        assert isinstance(prompt, ChatPrompt)
        return prompt.messages


class Lines:
    """Messages that are typed, each possibly after something else happens."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = list(lines)

    def read(self) -> str | None:
        return self._lines.pop(0) if self._lines else None


class Talk:
    """A chat of a scripted model with a vault, and what came of it."""

    def __init__(self, root: Path, script: Sequence[Step], *lines: str, json: bool = False) -> None:
        make_vault(root / "home" / "wiki", {"Ada": "# Ada\n\nAda lives in Lyon.\n"})
        self.paths = Paths(home=root / "home", cache=root / "cache", hub_cache=root / "hub")
        self.engine = ScriptedEngine(script)
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(json_mode=json, streams=Streams(out=self.out, err=self.err))
        self.store = SessionStore(self.paths.sessions_folder)
        self._lines = lines

    def run(self, tools: MemoryTools | None = None) -> int:
        write = (lambda _text: None) if self.console.json_mode else self.console.text
        diary = Diary(store=self.store, cwd="/", on_trouble=self.console.note)
        if self.store.files():
            diary.resume(self.store.latest())
        with Interrupts() as interrupts:
            chat = Chat(
                models=SimpleNamespace(engine=self.engine, lost=False, name="m"),  # type: ignore[arg-type]
                diary=diary,
                lines=Lines(self._lines),
                screen=PlainScreen(write),
                console=self.console,
                interrupts=interrupts,
                stats=False,
                toolbox=Toolbox(tools or MemoryTools(partial(open_memory, self.paths))),
            )
            code = chat.run(run_command)
        diary.close()
        return code

    def entries(self) -> list[dict[str, Any]]:
        return [*read_entries(self.store.latest().path)][1:]


def test_a_model_looks_things_up_and_answers(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [[SEARCH], "In Lyon."], "Where does Ada live?")
    assert talk.run() == 0
    assert talk.out.getvalue() == "Let me see.\nIn Lyon.\n"
    assert talk.err.getvalue() == '[memory_search {"query": "Lyon"}]\n'
    first, second = talk.engine.asked
    assert isinstance(first.prompt, ChatPrompt)
    assert [tool["function"]["name"] for tool in first.prompt.tools] == [t.name for t in TOOLS]
    assert [tool.name for tool in first.tools.tools] == [tool.name for tool in TOOLS]
    assert (first.tools.mode, second.tools.mode) == ("auto", "auto")
    question, called, result = talk.engine.messages(1)
    assert question == {"role": "user", "content": "Where does Ada live?"}
    assert called["content"] == "Let me see."
    assert called["tool_calls"][0]["function"]["arguments"] == '{"query": "Lyon"}'
    assert (result["role"], result["tool_call_id"]) == ("tool", called["tool_calls"][0]["id"])
    assert "Ada lives in Lyon." in result["content"]


def test_what_was_looked_up_is_kept_replayed_and_no_turn_of_the_user(tmp_path: Path) -> None:
    Talk(tmp_path, [[SEARCH], "In Lyon."], "Where does Ada live?").run()
    again = Talk(tmp_path, ["Yes."], "Sure?")
    roles = [entry["message"]["role"] for entry in again.entries()]
    assert roles == ["user", "assistant", "tool", "assistant"]
    again.run()
    assert [m["role"] for m in again.engine.messages(0)] == [*roles, "user"]
    path = again.store.latest().path
    (conversation,) = read_session(path, ReadLog())
    by_role = [(turn.role, "lives in Lyon" in turn.text) for turn in conversation.turns]
    assert ("tool", True) in by_role
    assert ("user", True) not in by_role


def test_several_calls_of_one_answer_are_all_made(tmp_path: Path) -> None:
    calls = [SEARCH, ("memory_read", '{"name": "Ada"}'), ("memory_read", "not JSON"), ("x", "[]")]
    talk = Talk(tmp_path, [calls, "Done."], "hello")
    talk.run()
    results = [m["content"] for m in talk.engine.messages(1) if m["role"] == "tool"]
    assert "search for Lyon" in results[0]
    assert "source: articles/Ada.md" in results[1]
    assert results[2] == results[3]
    assert "not a JSON object" in results[2]


def test_too_many_calls_at_once_are_answered_and_not_made(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [[SEARCH] * (MOST_CALLS + 2), "Done."], "hello")
    talk.run()
    results = [m["content"] for m in talk.engine.messages(1) if m["role"] == "tool"]
    assert len(results) == MOST_CALLS + 2
    assert all("at most 8 calls" in result for result in results[MOST_CALLS:])
    assert not any("at most 8 calls" in result for result in results[:MOST_CALLS])


def test_a_model_that_only_calls_has_to_answer_after_some_rounds(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [*[[SEARCH]] * MOST_ROUNDS, "At last."], "hello")
    talk.run()
    modes = [request.tools.mode for request in talk.engine.asked]
    assert modes == ["auto"] * MOST_ROUNDS + ["none"]
    assert "8 rounds of calls; the model has to answer now" in talk.err.getvalue()
    assert talk.out.getvalue().endswith("At last.\n")


def test_results_that_do_not_fit_are_an_error_and_the_chat_goes_on(tmp_path: Path) -> None:
    full = ContextTooLong("full", prompt_tokens=99, limit=64)
    talk = Talk(tmp_path, [[SEARCH], full, "Hi."], "Where?", "hello")
    assert talk.run() == 2
    assert "With what was looked up the conversation has 99 tokens" in talk.err.getvalue()
    assert [m["content"] for m in talk.engine.messages(1)] == ["Where?", "Let me see.", "hello"]


class Interrupted(MemoryTools):
    """Tools during whose first call Ctrl-C is pressed."""

    def call(self, name: str, arguments: Any) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return super().call(name, arguments)


def test_ctrl_c_stops_the_calls_and_not_the_chat(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [[SEARCH, SEARCH], "Hi."], "Where?", "hello")
    assert talk.run(Interrupted(partial(open_memory, talk.paths))) == 0
    assert talk.err.getvalue().splitlines() == ['[memory_search {"query": "Lyon"}]', "[stopped]"]
    assert [m["content"] for m in talk.engine.messages(1)] == ["Where?", "Let me see.", "hello"]
    assert [entry.get("finish") for entry in talk.entries()] == [
        *(None, "tool_calls", "cut"),  # a call that was ended has no result
        *(None, "stop"),
    ]


def test_a_program_hears_of_calls(tmp_path: Path) -> None:
    talk = Talk(tmp_path, [[SEARCH], "In Lyon."], "Where does Ada live?", json=True)
    talk.run()
    check_output(("chat", "--json"), talk.out.getvalue())
    called, call, answer = map(json.loads, talk.out.getvalue().splitlines())
    assert (called["event"], called["finish_reason"]) == ("answer", "tool_calls")
    assert (call["event"], call["name"], call["arguments"]) == ("tool_call", *SEARCH)
    assert "Ada lives in Lyon." in call["result"]
    assert (answer["text"], answer["finish_reason"]) == ("In Lyon.", "stop")


@pytest.mark.parametrize("command", ["/retry", "/undo"])
def test_a_question_is_given_up_with_all_that_was_looked_up(tmp_path: Path, command: str) -> None:
    talk = Talk(tmp_path, [[SEARCH], "In Lyon.", "Again."], "Where?", command, "/exit")
    talk.run()
    if command == "/retry":
        assert [m["content"] for m in talk.engine.messages(2)] == ["Where?"]
    else:
        assert len(talk.engine.asked) == 2


def test_without_a_vault_the_option_is_refused(fresh_environ: Environ, tiny_model: str) -> None:
    done = mlxbun("chat", tiny_model, "--memory", environ=fresh_environ, stdin="hello\n")
    assert done.returncode == 3
    assert done.stderr.startswith("mlxbun: There is no memory vault at ")
    assert "Create one with: mlxbun memory init" in done.stderr


def test_a_model_without_tools_in_its_template_is_told_of_them(
    fresh_environ: Environ, tmp_path: Path
) -> None:
    config = llama_config(max_position_embeddings=16384)
    model = str(make_model(tmp_path / "model", config=config))
    make_vault(Path(fresh_environ["HOME"]) / ".mlxbun" / "wiki", {"Ada": "# Ada\n"})
    run: Callable[..., Any] = partial(mlxbun, "chat", model, "--json", environ=fresh_environ)
    plain = run("--max-tokens", "2", stdin="hello\n")
    memory = run("--max-tokens", "2", "--memory", stdin="hello\n")
    tokens = [
        json.loads(done.stdout.splitlines()[0])["usage"]["prompt_tokens"]
        for done in (plain, memory)
    ]
    assert tokens[1] > tokens[0] + sum(len(tool.description) for tool in TOOLS)


def test_ctrl_c_ends_a_call_that_takes_long(tmp_path: Path) -> None:
    """The first search of a large vault builds the index, which may take a minute."""

    class Slow(MemoryTools):
        def call(self, name: str, arguments: Mapping[str, Any]) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
            return super().call(name, arguments)

    talk = Talk(tmp_path, [[SEARCH, SEARCH], "Yes."], "Where does Ada live?", "Are you there?")
    assert talk.run(Slow(partial(open_memory, talk.paths))) == 0
    roles = [entry["message"]["role"] for entry in talk.entries() if "message" in entry]
    assert "tool" not in roles
    assert talk.out.getvalue().endswith("Yes.\n")  # the chat itself has not ended
