"""`mlxbun generate` as a process: where the prompt comes from, what goes to stdout, how it ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.caches import add_model
from tests.processes import SCRIPT, environ_of, mlxbun
from tests.tiny import llama_config, make_model

GREEDY = ("--temperature", "0", "--max-tokens", "12")
Environ = dict[str, str]


def _answer(environ: Environ, *arguments: str, stdin: str = "") -> str:
    done = mlxbun("generate", *arguments, environ=environ, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n")
    return done.stdout[:-1]


def _json(environ: Environ, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_answer(environ, *arguments, "--json"))
    return answer


def _refused(environ: Environ, *arguments: str, code: int, stdin: str = "") -> str:
    """Return what a command that fails says: one sentence, perhaps a hint, and no data."""
    done = mlxbun("generate", *arguments, environ=environ, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, "")
    sentence, *hint = done.stderr.splitlines()
    assert sentence.startswith("mlxbun: ")
    assert len(hint) <= 1
    return done.stderr


# The prompt


def test_the_prompt_comes_as_an_argument_or_from_stdin(environ: Environ, tiny_model: str) -> None:
    answer = _answer(environ, tiny_model, "hello", *GREEDY)
    assert answer
    assert _answer(environ, tiny_model, "-", *GREEDY, stdin="hello") == answer
    named = {**environ, "MLXBUN_MODEL": tiny_model}
    assert _answer(named, "hello", *GREEDY) == answer
    assert _answer(named, *GREEDY, stdin="hello") == answer


def test_raw_and_system_make_other_prompts(environ: Environ, tiny_model: str) -> None:
    plain = _json(environ, tiny_model, "hello", *GREEDY)
    raw = _json(environ, tiny_model, "hello", "--raw", *GREEDY)
    system = _json(environ, tiny_model, "hello", "--system", "Be brief.", *GREEDY)
    assert raw["usage"]["prompt_tokens"] == len("hello")
    assert raw["text"] != plain["text"] != system["text"]
    assert system["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "The prompt is empty"),
        (("", "--raw"), "The prompt is empty"),
        (("model", "the", "prompt"), "Put the prompt in quotes"),
        (("hello", "--raw", "--system", "Be brief."), "--system needs the chat template"),
        (("hello", "--stop", ""), "--stop must not be empty"),
        (("hello", "--temperature", "hot"), "--temperature"),
        (("hello", "--max-tokens", "0"), "--max-tokens must be a whole number from 1"),
        (("hello", "--no-such-option"), "--no-such-option"),
    ],
)
def test_wrong_usage(environ: Environ, arguments: tuple[str, ...], said: str) -> None:
    assert said in _refused(environ, *arguments, code=2)


def test_a_model_without_chat_template(environ: Environ, plain_model: str) -> None:
    said = _refused(environ, plain_model, "hello", code=2)
    assert "no chat template" in said
    assert "--raw" in said
    assert _answer(environ, plain_model, "hello", "--raw", *GREEDY)


# Options


def test_a_stop_text_is_not_shown(environ: Environ, tiny_model: str) -> None:
    whole = _answer(environ, tiny_model, "hello", *GREEDY)
    stop = whole[4:6]
    ended = _json(environ, tiny_model, "hello", *GREEDY, "--stop", "no such", "--stop", stop)
    assert ended["text"] == whole.partition(stop)[0]
    assert ended["finish_reason"] == "stop"


def test_a_seed_makes_an_answer_again(environ: Environ, tiny_model: str) -> None:
    hot = ("--temperature", "2", "--max-tokens", "24", "--seed")
    first = _answer(environ, tiny_model, "hello", *hot, "7")
    assert _answer(environ, tiny_model, "hello", *hot, "7") == first
    assert _answer(environ, tiny_model, "hello", *hot, "8") != first


def test_json_is_alone_on_stdout(environ: Environ, tiny_model: str) -> None:
    text = _answer(environ, tiny_model, "hello", *GREEDY)
    answer = _json(environ, tiny_model, "hello", *GREEDY)
    assert answer["text"] == text
    assert answer["model"] == "tiny"
    assert answer["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 12


def test_weights_may_stay_packed(environ: Environ, tmp_path: Path) -> None:
    packed = str(make_model(tmp_path / "packed", bits=4))
    for wish in ("on", "off"):
        answer = _json(environ, packed, "hello", *GREEDY, "--dequantize", wish)
        assert answer["usage"]["completion_tokens"] == 12
    assert "--dequantize" in _refused(environ, packed, "hello", "--dequantize", "some", code=2)


# Models that cannot be used


def test_an_unknown_model_has_near_misses(tmp_path: Path) -> None:
    environ = environ_of(tmp_path, HF_HUB_CACHE=str(tmp_path / "hub"))
    assert "mlxbun download starter" in _refused(environ, "smolm2", "hello", code=3)
    add_model(tmp_path / "hub", "acme/SmolLM2-135M")
    said = _refused(environ, "smolm2-135m", "hello", code=3)
    assert "Did you mean acme/SmolLM2-135M?" in said
    assert "no folder ./smolm2" in _refused(environ, "./smolm2", "hello", code=3)


def test_an_ambiguous_name_lists_what_it_fits(tmp_path: Path) -> None:
    environ = environ_of(tmp_path, HF_HUB_CACHE=str(tmp_path / "hub"))
    for name in ("acme/fox-1", "acme/fox-2"):
        add_model(tmp_path / "hub", name)
    said = _refused(environ, "fox", "hello", code=3)
    assert "acme/fox-1, acme/fox-2" in said
    assert "several models" in _refused(environ, "hello", code=2)


def test_truncated_weights(environ: Environ, truncated_model: str) -> None:
    said = _refused(environ, truncated_model, "hello", code=7)
    assert "model.safetensors is broken" in said
    assert "Download the model again" in said


def test_a_model_beyond_the_memory_budget(environ: Environ, tmp_path: Path) -> None:
    config = llama_config(hidden_size=512, intermediate_size=2048)
    large = str(make_model(tmp_path / "large", config=config))
    said = _refused(environ, large, "hello", "--memory-budget", "0.01", code=4)
    assert "10 MB" in said
    assert "--memory-budget" in said


def test_a_blas_that_is_not_there(environ: Environ, tiny_model: str) -> None:
    said = _refused(environ, tiny_model, "hello", "--blas", "/nowhere.so", code=2)
    assert "/nowhere.so cannot be used" in said


# The end


def _talking(environ: Environ, model: str) -> subprocess.Popen[bytes]:
    """Start an answer that would go on for minutes."""
    return subprocess.Popen(
        [SCRIPT, "generate", model, "hello", "--temperature", "0"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_ctrl_c_ends_it_and_keeps_what_was_said(environ: Environ, endless_model: str) -> None:
    with _talking(environ, endless_model) as process:
        assert process.stdout is not None
        start = os.read(process.stdout.fileno(), 8)
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert start
    assert said in (b"", b"mlxbun: interrupted\n")
    (start + rest).decode()  # whole characters only


def test_a_reader_that_has_seen_enough(environ: Environ, endless_model: str) -> None:
    with _talking(environ, endless_model) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert os.read(process.stdout.fileno(), 5)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


def test_output_that_cannot_be_written(environ: Environ, tmp_path: Path) -> None:
    with (tmp_path / "full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, "config", "show"],
            env=environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
    assert done.returncode == 1
    assert done.stderr == "mlxbun: The output cannot be written: File too large.\n"


def test_a_closed_stdout_is_nobodys_business(environ: Environ) -> None:
    command = f"'{SCRIPT}' config show >&-"
    done = subprocess.run(command, shell=True, env=environ, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"internal error" not in done.stderr


# The form


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--json-schema", "{", "is not JSON: "),
        ("--json-schema", "[1]", "is not a JSON schema: it must hold an object."),
        ("--json-schema", '{"type": "strng"}', "cannot be enforced: the schema is malformed."),
        ("--json-schema", '{"enum": []}', "cannot be enforced: nothing matches the schema."),
        ("--json-schema", b"\xff{}", "is not UTF-8 text."),
        ("--grammar", "", "--grammar cannot be enforced: the grammar is empty."),
    ],
)
def test_files_of_forms_that_are_none(
    environ: Environ, tmp_path: Path, option: str, content: str | bytes, said: str
) -> None:
    file = tmp_path / "form"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said in _refused(environ, "hello", option, str(file), code=2)


def test_forms_that_are_not_there_or_too_many(environ: Environ, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.json")
    said = _refused(environ, "hello", "--json-schema", nowhere, code=3)
    assert f"There is no file {nowhere}." in said
    said = _refused(environ, "hello", "--regex", "a", "--grammar", nowhere, code=2)
    assert "exclude each other" in said
    assert "an anchor" in _refused(environ, "hello", "--regex", "a$b", code=2)
