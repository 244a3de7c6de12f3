"""Running servers: told apart from dead ones and from strangers with their number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from core.errors import Ambiguous, NotFound
from core.servers import (
    RunningServer,
    find_server,
    list_servers,
    process_born,
    read_servers,
    registered,
    stop_server,
)

SERVER = RunningServer(
    pid=os.getpid(),
    born=process_born(os.getpid()) or "",
    url="http://127.0.0.1:8080",
    model="org/Name-4bit",
    started_at=5.0,
)


def write(folder: Path, server: RunningServer) -> None:
    (folder / f"{server.pid}.json").write_text(json.dumps(asdict(server)))


def test_a_server_is_listed_while_it_runs(tmp_path: Path) -> None:
    with registered(tmp_path / "run", url="http://h:1", model="m"):
        (server,) = list_servers(tmp_path / "run")
        assert (server.pid, server.url, server.model) == (os.getpid(), "http://h:1", "m")
    assert list_servers(tmp_path / "run") == []
    assert list((tmp_path / "run").iterdir()) == []


def test_it_says_where_its_model_lies(tmp_path: Path) -> None:
    with registered(tmp_path / "run", url="u", model="m", model_folder=Path("here")):
        (server,) = list_servers(tmp_path / "run")
    assert server.folder == str(Path.cwd() / "here")


def test_files_of_an_older_mlxbun_are_read(tmp_path: Path) -> None:
    fields = asdict(SERVER)
    del fields["folder"]
    (tmp_path / "1.json").write_text(json.dumps(fields))
    assert list_servers(tmp_path) == [SERVER]


def test_reading_removes_nothing(tmp_path: Path) -> None:
    write(tmp_path, SERVER)
    stale = tmp_path / "1.json"
    stale.write_text("{")
    files = read_servers(tmp_path)
    assert (files.alive, files.stale) == ((SERVER,), (stale,))
    assert stale.exists()


def test_it_runs_too_where_no_file_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("in the way")
    ran = False
    with registered(tmp_path / "run", url="u", model="m"):
        ran = True
    assert ran


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}",
     '{"pid": "x", "born": 1, "url": 2, "model": 3, "started_at": 4}',
     json.dumps({**asdict(SERVER), "folder": 5})],
)  # fmt: skip
def test_broken_files_are_removed(tmp_path: Path, content: str) -> None:
    (tmp_path / "1.json").write_text(content)
    assert list_servers(tmp_path) == []
    assert not (tmp_path / "1.json").exists()


def test_dead_servers_and_strangers_with_their_number_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        gone = process.pid
    write(tmp_path, replace(SERVER, pid=gone))
    write(tmp_path, replace(SERVER, born="another time"))
    assert list_servers(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_holds_none(tmp_path: Path) -> None:
    assert list_servers(tmp_path / "none") == []


def test_a_server_is_found_by_pid_port_and_model() -> None:
    other = replace(SERVER, pid=1, url="http://127.0.0.1:9000", model="org/Other")
    servers = [SERVER, other]
    assert find_server(str(os.getpid()), servers) is SERVER
    assert find_server("9000", servers) is other
    assert find_server("name-4", servers) is SERVER
    assert find_server(None, [other]) is other
    with pytest.raises(Ambiguous) as several:
        find_server("org/", servers)
    assert len(several.value.candidates) == 2
    with pytest.raises(Ambiguous):
        find_server(None, servers)
    with pytest.raises(NotFound, match="'nobody'"):
        find_server("nobody", servers)
    with pytest.raises(NotFound, match="No mlxbun server"):
        find_server(None, [])


@pytest.mark.parametrize(("obeys", "patience"), [(True, 10.0), (False, 0.3)])
def test_stopping_waits_for_the_end_as_long_as_it_is_told(obeys: bool, patience: float) -> None:
    ignore = "" if obeys else "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    script = f"import signal, time; {ignore} print('up', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        server = replace(SERVER, pid=process.pid, born=process_born(process.pid) or "")
        assert stop_server(server, patience=patience) is obeys
        process.kill()
    assert stop_server(server, patience=1)
