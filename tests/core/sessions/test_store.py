"""Session files: what was written whole is read again, whatever stands between."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Ambiguous, NotFound, StoreCorrupt, UsageProblem
from core.sessions.conversation import said
from core.sessions.store import SessionFile, SessionStore, SessionWriter, read_entries

NOW = datetime(2026, 11, 29, 16, 40, 7, tzinfo=UTC)


def _begin(folder: Path, first: str = "Why is the sky blue?") -> SessionWriter:
    return SessionStore(folder).create({"cwd": "/", "model": "m"}, first=first, now=NOW)


def _contents(path: Path) -> list[str]:
    messages = [entry["message"] for entry in read_entries(path) if entry["type"] == "message"]
    return [message["content"] for message in messages]


def _named(folder: Path, *names: str) -> SessionStore:
    folder.mkdir()
    for name in names:
        (folder / f"{name}.jsonl").write_text("")
    return SessionStore(folder)


def test_a_new_file_tells_what_it_is_and_is_ours_alone(tmp_path: Path) -> None:
    writer = _begin(tmp_path / "sessions")
    writer.append(said("user", "Why is the sky blue? ü"))
    assert writer.name == "2026-11-29_16-40-07_why-is-the-sky-blue"
    header, message = read_entries(writer.path)
    assert header.items() >= {"type": "session", "cwd": "/", "model": "m"}.items()
    assert header["id"]
    assert header["created"] == "2026-11-29T16:40:07+00:00"
    assert message["message"] == {"role": "user", "content": "Why is the sky blue? ü"}
    assert stat.S_IMODE(writer.path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "sessions").stat().st_mode) == 0o700


def test_chats_of_one_moment_get_files_of_their_own(tmp_path: Path) -> None:
    writers: list[SessionWriter] = []

    def chat(number: int) -> None:
        writer = _begin(tmp_path)
        for i in range(20):
            writer.append(said("user", f"{number}.{i}"))
        writers.append(writer)

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({writer.name for writer in writers}) == 8
    for writer in writers:
        contents = _contents(writer.path)
        assert contents == [f"{contents[0].split('.')[0]}.{i}" for i in range(20)]


def test_a_conversation_is_open_in_one_chat_at_a_time(tmp_path: Path) -> None:
    store, writer = SessionStore(tmp_path), _begin(tmp_path)
    with pytest.raises(UsageProblem, match="open in another chat"):
        store.open(store.latest())
    writer.close()
    again = store.open(store.latest())
    again.append(said("user", "more"))
    assert _contents(writer.path) == ["more"]


LINES = st.one_of(
    st.builds(lambda text: json.dumps(said("user", text)).encode(), st.text(max_size=8)),
    st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")),
    st.sampled_from(
        [b"[" * 5000, b"[]", b"null", b"1" * 5000, b"\xff\xfe", b'{"type": "mess', b"{}"]
    ),
)


@given(lines=st.lists(LINES, max_size=8), torn=st.integers(0, 40))
def test_what_was_whole_is_never_lost(
    lines: list[bytes], torn: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("s") / "s.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + lines[-1][:torn] if lines else b"")
    store = SessionStore(path.parent)
    before = list(read_entries(path))
    writer = store.open(store.latest())
    writer.append(said("user", "next"))
    writer.close()
    whole = [entry for entry in map(_entry, lines) if entry is not None]
    after = list(read_entries(path))
    assert before[: len(whole)] == whole
    assert after[: len(before)] == before
    assert after[-1]["message"]["content"] == "next"


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def test_a_line_that_could_not_be_written_spoils_no_other(tmp_path: Path) -> None:
    script = f"""
import resource, sys
from pathlib import Path
from datetime import datetime, UTC
from core.sessions.conversation import said
from core.sessions.store import SessionStore
writer = SessionStore(Path({str(tmp_path)!r})).create({{}}, first="x", now=datetime.now(UTC))
size = writer.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30, resource.RLIM_INFINITY))
try:
    writer.append(said("user", "lost"))
except OSError as problem:
    print(problem.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.append(said("user", "kept"))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "File too large\n"
    assert _contents(SessionStore(tmp_path).latest().path) == ["kept"]


def test_the_latest_is_the_one_written_to_last(tmp_path: Path) -> None:
    import os

    store = _named(tmp_path / "s", "2026-01-01_00-00-00_old", "2026-02-01_00-00-00_new")
    os.utime(tmp_path / "s" / "2026-02-01_00-00-00_new.jsonl", (1, 1))
    assert store.latest().name == "2026-01-01_00-00-00_old"
    with pytest.raises(NotFound, match="no conversation"):
        SessionStore(tmp_path / "none").latest()


def test_names_are_found_by_a_part(tmp_path: Path) -> None:
    store = _named(tmp_path / "s", "2026-01-01_00-00-00_why-is-the-sky-blue",
                   "2026-01-02_00-00-00_fox", "2026-01-02_00-00-00_fox_2")  # fmt: skip

    def found(name: str) -> SessionFile:
        return store.find(name)

    assert found("SKY").name.endswith("sky-blue")
    assert found("2026-01-02_00-00-00_fox").name == "2026-01-02_00-00-00_fox"
    assert found("2026-01-02_00-00-00_fox_2.jsonl").name.endswith("fox_2")
    with pytest.raises(Ambiguous, match="fits 2 conversations") as several:
        found("fox")
    assert len(several.value.candidates) == 2
    with pytest.raises(NotFound) as near:
        found("why-is-the-sky-bleu")
    assert "Did you mean 2026-01-01_00-00-00_why-is-the-sky-blue?" in str(near.value.hint)
    with pytest.raises(NotFound) as nothing:
        found("zzzzzz")
    assert "The latest: " in str(nothing.value.hint)
    with pytest.raises(NotFound):
        found("")


def test_a_folder_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file")
    store = SessionStore(tmp_path / "sessions")
    with pytest.raises(OSError, match="exists"):
        store.create({}, first="x", now=NOW)
    with pytest.raises(NotFound):
        store.latest()
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        list(read_entries(tmp_path / "gone.jsonl"))
