"""Changing models: one in memory at a time, each computed as if it were the first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.tiny import llama_config, make_model

SCRIPT = """
import json, sys
from commands._shared.session import Session
from commands.chat.interrupts import Interrupts
from commands.chat.models import Models
from core.errors import MlxbunError
from core.paths import Paths

environ, (first, second, broken) = json.loads(sys.argv[1]), sys.argv[2:]
session = Session(environ=environ, paths=Paths.from_environ(environ))
models = Models(session, session.settings(batch=1).values, session.console())
seen = []

def look():
    import mlx.core as mx

    loaded_as = models.engine.info.loaded_as
    seen.append([models.name, loaded_as, mx.get_active_memory() // 1000])

models.open(first)
look()
with Interrupts() as interrupts:
    models.change(second, interrupts)
    look()
    try:
        models.change(broken, interrupts)
    except MlxbunError as error:
        seen.append(error.message)
    look()
    models.change(first, interrupts)
    look()
models.close()
print(json.dumps(seen))
"""


def test_models_come_and_go(fresh_environ: dict[str, str], tmp_path: Path) -> None:
    # Its files are whole; that they do not fit together is noticed when they are loaded.
    broken = str(make_model(tmp_path / "broken"))
    (tmp_path / "broken" / "config.json").write_text(json.dumps(llama_config(num_hidden_layers=3)))
    first = str(make_model(tmp_path / "first", bits=4))
    second = str(make_model(tmp_path / "second"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(fresh_environ), first, second, broken],
        env=fresh_environ,
        capture_output=True,
        text=True,
        check=True,
    )
    began, changed, failed, kept, back = json.loads(done.stdout)
    assert [began[0], changed[0], kept[0], back[0]] == [first, second, second, first]
    assert "cannot be loaded" in failed
    assert kept == changed
    assert back == began  # as much memory, and unpacked again if it was
    assert f"{broken} cannot be loaded; loading {second} again." in done.stderr
