"""A memory vault that the scenes show: written from a small chat by the rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from core.memory.opening import open_memory
from core.memory.pipeline import SynthesisOptions, synthesize
from core.memory.rules import RulesModel
from core.memory.setup import setup_vault
from core.memory.sources.find import SourceOptions
from core.paths import Paths
from tests.commands.memory.vaults import CHAT, add_chat, programs

_UNWRITTEN = ("memory ingest", "memory synthesize")
_REQUEST = """\
{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", \
"capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}}
"""


def add_memory(home: Path, verb: str) -> None:
    """Fill a home as a scene of a verb needs it: a chat, a vault, articles in it."""
    paths = Paths.from_environ({"HOME": str(home)})
    add_chat(paths, *CHAT)
    (home / "request.json").write_text(_REQUEST, encoding="utf-8")
    if verb == "memory init":
        return
    setup_vault(paths.wiki, on_note=lambda _note: None)
    if verb not in _UNWRITTEN:
        _synthesize(paths, review=verb == "memory review")
    if verb == "memory doctor":
        ana = paths.wiki / "articles" / "Ana.md"
        ana.write_text(f"{ana.read_text()}\nSee [[Bluebird Records]].\n")


def environment(home: Path, environ: Mapping[str, str], verb: str) -> dict[str, str]:
    """Return the environment of a scene; a schedule is installed in a crontab of its own."""
    if verb not in ("memory schedule", "memory unschedule"):
        return dict(environ)
    mlxbun = environ["PATH"].split(":", 1)[0]
    return {**environ, "PATH": f"{mlxbun}:{programs(home / 'bin')}:/bin"}


def _synthesize(paths: Paths, *, review: bool) -> None:
    sources = SourceOptions(sessions=paths.sessions_folder)
    synthesize(
        SynthesisOptions(sources=sources, review=review),
        vault_root=paths.wiki,
        paths=paths,
        model=RulesModel,
        on_event=lambda _event: None,
        cancelled=lambda: False,
        clock=lambda: datetime.now(UTC),
    )
    assert open_memory(paths).vault.exists
