"""`mlxbun chat` as a process with its lines in a pipe: what is said, kept, resumed and refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.lora import make_adapter
from tests.processes import SCRIPT, mlxbun, wait_until
from tests.tiny import llama_config, make_model

GREEDY = ("--temperature", "0", "--max-tokens", "12")
Environ = dict[str, str]


def _chat(environ: Environ, *arguments: str, lines: str, code: int = 0) -> tuple[str, str]:
    """Return what a chat writes to stdout and to stderr."""
    done = mlxbun("chat", *arguments, *GREEDY, environ=environ, stdin=lines)
    assert done.returncode == code, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    return done.stdout, done.stderr


def _sessions(environ: Environ) -> list[Path]:
    return sorted((Path(environ["HOME"]) / ".mlxbun" / "sessions").glob("*.jsonl"))


def _entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _said(path: Path) -> list[str]:
    return [
        f"{entry['message']['role']}: {entry['message']['content']}"
        if entry["type"] == "message"
        else entry["type"]
        for entry in _entries(path)
    ]


def test_a_conversation_is_kept_and_gone_on_with(fresh_environ: Environ, tiny_model: str) -> None:
    out, said = _chat(fresh_environ, tiny_model, lines="hello\nworld\n")
    assert said.count("[cut at 12 tokens") == 2
    (file,) = _sessions(fresh_environ)
    assert file.stem.endswith("_hello")
    first, second = (entry for entry in _entries(file) if entry.get("finish"))
    assert out == "".join(f"{e['message']['content']}\n" for e in (first, second))
    assert _entries(file)[0]["model"] == tiny_model
    more, _ = _chat(fresh_environ, "--continue", lines="again\n")  # the model is known
    again, _ = _chat(fresh_environ, tiny_model, lines="hello\nworld\nagain\n")
    assert again == out + more
    assert [line.split(":")[0] for line in _said(file)] == ["session", *["user", "assistant"] * 3]
    assert _chat(fresh_environ, "--resume", "hello", lines="", code=3)[1].startswith("mlxbun: ")
    assert _chat(fresh_environ, "--resume", file.stem, lines="/undo\n") == (
        "",
        "Taken back: again\n",
    )


def test_retry_and_undo(fresh_environ: Environ, tiny_model: str) -> None:
    lines = "hello\n/retry\n/undo\n/undo\nworld\n"
    out, said = _chat(fresh_environ, tiny_model, lines=lines, code=2)
    hello, again, world = out.splitlines()
    assert hello == again
    assert world == _chat(fresh_environ, tiny_model, "--no-save", lines="world\n")[0][:-1]
    assert "There is nothing to take back." in said
    (file,) = _sessions(fresh_environ)
    kinds = [line.split(":")[0] for line in _said(file)]
    assert kinds == [
        "session",
        "user",
        "assistant",
        "retry",
        "assistant",
        "undo",
        "user",
        "assistant",
    ]


def test_system_and_temperature_make_other_answers(environ: Environ, tiny_model: str) -> None:
    brief = _chat(environ, tiny_model, "--no-save", "--system", "Be brief.", lines="hello\n")[0]
    lines = "hello\n/system\n/system Be brief.\n/undo\nhello\n/system -\n/temperature 2\n/retry\n"
    out, said = _chat(environ, tiny_model, "--no-save", lines=lines + "/temperature hot\n", code=2)
    plain, with_system, _hot = out.split("\n", 2)
    assert with_system == brief[:-1] != plain
    assert "No system message.\nSystem: Be brief.\n" in said
    assert "Temperature 2.\n" in said
    assert "/temperature must be a number, not 'hot'." in said


def test_no_save_keeps_nothing(fresh_environ: Environ, tiny_model: str) -> None:
    _chat(fresh_environ, tiny_model, "--no-save", lines="hello\n")
    assert _sessions(fresh_environ) == []
    assert "There is no conversation" in _chat(fresh_environ, "--continue", lines="", code=3)[1]
    assert (
        "give one of them"
        in _chat(fresh_environ, "--continue", "--resume", "x", lines="", code=2)[1]
    )


def test_several_lines_make_one_message(fresh_environ: Environ, tiny_model: str) -> None:
    lines = 'one\\\ntwo\n"""three\n\nfour\\\n"""\n//five\n\n"""six'
    _chat(fresh_environ, tiny_model, lines=lines)
    questions = [line for line in _said(_sessions(fresh_environ)[0]) if line.startswith("user")]
    assert questions == [
        "user: one\ntwo", "user: three\n\nfour\\", "user: /five", "user: six"
    ]  # fmt: skip


def test_commands_and_their_near_misses(environ: Environ, tiny_model: str) -> None:
    lines = "/help\n/rety\n/stat\n/nosuch\n/undo now\n/stats maybe\n/stats on\n/exit\nhello\n"
    out, said = _chat(environ, tiny_model, "--no-save", lines=lines, code=2)
    assert out == ""
    assert "give up the last answer" in said
    assert "Did you mean /retry?" in said
    assert "Did you mean /stats?" in said
    assert "There is no command /nosuch.\n  /help lists them" in said
    assert "/undo takes nothing behind it." in said
    assert "Stats are on." in said


def test_stats_tell_speed_and_cached_tokens(environ: Environ, tiny_model: str) -> None:
    said = _chat(environ, tiny_model, "--no-save", "--stats", lines="hello\nworld\n")[1]
    first, second = (line for line in said.splitlines() if "tokens/s" in line)
    assert "0 of " in first
    assert " 0 of " not in second
    off = _chat(environ, tiny_model, "--no-save", "--prompt-cache", "0", "--stats", lines="a\nb\n")[
        1
    ]
    assert off.count("; 0 of ") == 2


def test_save_writes_markdown_or_jsonl(
    fresh_environ: Environ, tiny_model: str, tmp_path: Path
) -> None:
    base = tmp_path / "talk"
    lines = (
        f"/save {base}.md\nhello\n/undo\nworld\n"
        f"/save {base}.md\n/save {base}.md\n/save! {base}.md\n"
        f"/save {base}.jsonl\n/save {base}.doc\n/save {tmp_path}/none/../no.md\n/save /proc/no.md\n"
    )
    out, said = _chat(fresh_environ, tiny_model, lines=lines, code=2)
    world = out.splitlines()[1]
    assert "There is nothing to save yet." in said
    assert f"{base}.md is there already.\n  `/save! {base}.md` writes over it." in said
    assert "Let the name end in .md or .jsonl." in said
    assert "/proc/no.md cannot be written" in said
    text = Path(f"{base}.md").read_text()
    assert f"## You\n\nworld\n\n## Assistant\n\n{world}\n" in text
    assert "hello" not in text
    assert _said(Path(f"{base}.jsonl")) == ["session", "user: world", f"assistant: {world}"]


def test_another_model_answers_or_the_old_one_again(
    fresh_environ: Environ, tiny_model: str, plain_model: str, truncated_model: str, tmp_path: Path
) -> None:
    other = str(make_model(tmp_path / "other", seed=5))
    lines = f"/model\nhello\n/model {other}\n/retry\n/model nowhere\n/model {truncated_model}\n"
    lines += f"/model {plain_model}\n/model\n/retry\n"
    out, said = _chat(fresh_environ, tiny_model, lines=lines, code=3)
    tiny, by_other, again = out.splitlines()
    assert tiny != by_other == again
    assert said.startswith(f"* {tiny_model}\n")
    assert f"{other} answers from here on." in said
    assert "There is no model 'nowhere'" in said
    assert said.count(f"cannot be loaded; loading {other} again.") == 1
    assert "model.safetensors is broken" in said  # noticed while the other is still loaded
    assert "has no chat template" in said
    (file,) = _sessions(fresh_environ)
    assert [e["model"] for e in _entries(file) if e["type"] == "model"] == [other]
    assert _chat(fresh_environ, "--continue", lines="/model\n")[1].startswith(f"* {other}\n")


def test_an_adapter_that_does_not_fit_another_model_leaves_the_old_one_in_memory(
    environ: Environ, tiny_model: str, tmp_path: Path
) -> None:
    wide = llama_config(hidden_size=96)
    other = str(make_model(tmp_path / "wide", config=wide))
    adapter = str(make_adapter(tmp_path / "adapter"))
    lines = f"/model {other}\n/model\n"
    said = _chat(environ, tiny_model, "--adapter", adapter, lines=lines, code=7)[1]
    assert "does not fit wide" in said
    assert "cannot be loaded; loading" not in said
    assert f"* {tiny_model}\n" in said


def test_a_full_context_loses_nothing(fresh_environ: Environ, tiny_model: str) -> None:
    lines = f"hello\n{'x' * 600}\nworld\n"
    out, said = _chat(fresh_environ, tiny_model, lines=lines, code=2)
    assert len(out.splitlines()) == 2
    assert "the context holds 512; the message was not added.\n  /undo takes" in said
    kinds = [line.split(":")[0] for line in _said(_sessions(fresh_environ)[0])]
    assert kinds == ["session", *["user", "assistant"] * 2]
    done = mlxbun("chat", tiny_model, "--temperature", "0", environ=fresh_environ, stdin="hello\n")
    assert "[cut: the context of 512 tokens is full. /undo takes" in done.stderr


def test_a_model_without_chat_template_is_refused(environ: Environ, plain_model: str) -> None:
    said = _chat(environ, plain_model, lines="hello\n", code=2)[1]
    assert "has no chat template" in said


def test_a_broken_line_is_skipped(fresh_environ: Environ, tiny_model: str) -> None:
    _chat(fresh_environ, tiny_model, lines="hello\n")
    (file,) = _sessions(fresh_environ)
    with file.open("ab") as torn:
        torn.write(b'{"type": "message", "mess')
    _chat(fresh_environ, "--continue", lines="world\n")
    whole = file.read_text().splitlines()
    assert [json.loads(line)["type"] for line in [*whole[:3], *whole[4:]]]
    assert _chat(fresh_environ, "--continue", lines="/undo\n/undo\n")[1] == (
        "Taken back: world\nTaken back: hello\n"
    )


def test_two_chats_do_not_share_a_file(fresh_environ: Environ, tiny_model: str) -> None:
    with _open(fresh_environ, tiny_model) as first:
        _ask(first, "hello")
        wait_until(lambda: first.poll() is not None or _sessions(fresh_environ))
        said = _chat(fresh_environ, tiny_model, "--continue", lines="", code=2)[1]
        assert "is open in another chat" in said
        _chat(fresh_environ, tiny_model, lines="hello\n")
        first.communicate(timeout=60)
    assert len(_sessions(fresh_environ)) == 2


def test_a_full_disk_ends_the_saving_and_not_the_chat(
    fresh_environ: Environ, tiny_model: str
) -> None:
    _chat(fresh_environ, tiny_model, "--no-save", lines="")  # finds the BLAS, which is a file
    # The shell lets files grow to 512 bytes.
    command = f"ulimit -f 1; exec '{SCRIPT}' chat '{tiny_model}' {' '.join(GREEDY)}"
    done = subprocess.run(
        ["sh", "-c", command],
        env=fresh_environ,
        input="one\ntwo\nthree\nfour\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    assert done.stderr.count("this conversation is not saved: File too large.") == 1


def test_answers_for_a_program(fresh_environ: Environ, tiny_model: str) -> None:
    lines = "hello\n/system Be brief.\n/nonsense\nworld\n"
    out, said = _chat(fresh_environ, tiny_model, "--json", lines=lines, code=2)
    first, refused, second, done = map(json.loads, out.splitlines())
    (file,) = _sessions(fresh_environ)
    answers = [entry["message"]["content"] for entry in _entries(file) if entry.get("finish")]
    assert [first["text"], second["text"]] == answers
    assert [first["event"], refused["event"]] == ["answer", "refused"]
    assert (first["finish_reason"], first["usage"]["completion_tokens"]) == ("length", 12)
    assert refused["error"]["exit_code"] == 2
    assert "/nonsense" in refused["error"]["message"]
    assert done == {"schema": 1, "event": "done", "model": tiny_model, "session": file.stem}
    assert "System: Be brief." in said


def test_quiet_keeps_what_was_asked_for(fresh_environ: Environ, tiny_model: str) -> None:
    out, said = _chat(fresh_environ, tiny_model, "-q", lines="hello\n/system\n")
    assert out
    assert said == "No system message.\n"


def _open(environ: Environ, *arguments: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [SCRIPT, "chat", *arguments, "--temperature", "0"]
    return subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, stderr=pipe)


def _ask(chat: subprocess.Popen[bytes], line: str) -> None:
    assert chat.stdin is not None
    chat.stdin.write(f"{line}\n".encode())
    chat.stdin.flush()


@pytest.mark.parametrize("ending", ["more", "closed"])
def test_ctrl_c_stops_the_answer_and_not_the_program(
    fresh_environ: Environ, endless_model: str, ending: str
) -> None:
    with _open(fresh_environ, endless_model) as chat:
        assert chat.stdout is not None
        _ask(chat, "hello")
        start = os.read(chat.stdout.fileno(), 8)
        chat.send_signal(signal.SIGINT)
        out, said = chat.communicate(b"/undo\n" if ending == "more" else b"", timeout=60)
    assert chat.returncode == 0
    assert said.startswith(b"[stopped after ")
    assert (b"Taken back: hello" in said) == (ending == "more")
    answer = _entries(_sessions(fresh_environ)[0])[2]
    assert answer["finish"] == "cut"
    assert (start + out).decode() == answer["message"]["content"] + "\n"


def test_a_chat_that_is_killed_keeps_what_was_asked(
    fresh_environ: Environ, endless_model: str
) -> None:
    with _open(fresh_environ, endless_model) as chat:
        assert chat.stdout is not None
        _ask(chat, "hello")
        assert os.read(chat.stdout.fileno(), 8)
        chat.kill()
    (file,) = _sessions(fresh_environ)
    assert _said(file) == ["session", "user: hello"]
