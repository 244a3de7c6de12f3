"""A small vault with a store, for tests of forgetting."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from core.memory.citation import Citation
from core.memory.git import Git
from core.memory.opening import Memory, open_memory
from core.memory.writer import Change, editing
from core.paths import Paths
from tests.core.memory.test_store import conversation

ADA = "articles/Ada Lovelace.md"
TRAVEL = "articles/Travel.md"


def note(label: int, message: str, quote: str, *, source: str = "session:a") -> str:
    citation = Citation(source=source, message=message, quote=quote, date="2026-03-01")
    return f"[^{label}]: {citation.line()}\n"


ADA_TEXT = (
    "# Ada Lovelace\n\n```info\nkind: person\nhome: Lyon\n```\n\n"
    "Ada lives in Lyon.[^1] She likes tea.[^2]\n\n"
    "## Work\n\nShe wrote a program.[^2]\n\n## References\n\n"
    + note(1, "m1", "I moved to Lyon last week.")
    + note(2, "m2", "I like tea, and I write programs.")
)
TRAVEL_TEXT = (
    "# Travel\n\nThe trip of [[Ada Lovelace]] was long.\n\n## To Lyon and back\n\n"
    "It rained.[^1]\n\n## See also\n\n- [[Ada Lovelace]]\n- [[Trains]]\n\n## References\n\n"
    + note(1, "m2", "I like tea, and I write programs.")
)


def make(tmp_path: Path, files: Mapping[str, str] | None = None) -> Memory:
    root = tmp_path / "vault"
    (root / "articles").mkdir(parents=True)
    Git(root).init()
    write(root, {ADA: ADA_TEXT, TRAVEL: TRAVEL_TEXT} if files is None else files)
    home = tmp_path / "home"
    paths = Paths(home=home, cache=tmp_path / "cache", hub_cache=tmp_path / "hub")
    memory = open_memory(paths, root)
    told = conversation("I moved to Lyon last week.", "I like tea, and I write programs.")
    memory.store.add(told, origin="/a")
    return memory


def write(root: Path, files: Mapping[str, str], *, message: str = "Add", run: str = "r1") -> str:
    changes = [
        Change(path=path, before=digest(root / path), after=text) for path, text in files.items()
    ]
    with editing(root) as edit:
        return edit.commit(changes, message, run=run, sources=("session:a",))


def digest(path: Path) -> str | None:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def git(root: Path, *args: str) -> str:
    environ = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/nonexistent"}
    done = subprocess.run(
        ["git", *args], cwd=root, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout


def all_bytes(folder: Path) -> bytes:
    """Return everything in a folder, objects of git unpacked."""
    files = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    if not (folder / ".git").is_dir():
        return files
    listed = git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    return files + b"".join(git(folder, "cat-file", "-p", name).encode() for name in listed)
