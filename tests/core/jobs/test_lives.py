"""Processes that live, and those that do not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import core.jobs.lives
from core.jobs.lives import Lives
from core.servers import process_born


def test_they_are_told_as_the_system_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = Lives()
    assert lives(os.getpid()) == process_born(os.getpid())
    assert lives(1) == process_born(1)
    assert lives(2**30) is None
    assert lives(2**100) is None
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    born = lives(child.pid)
    assert born
    monkeypatch.setattr(core.jobs.lives, "process_born", lambda _pid: "another")
    assert lives(child.pid) == born  # asked a moment ago
    child.kill()
    child.wait()
    assert lives(child.pid) is None
