"""Setting up a vault: its folders and pages, and its git repository. May be done again at any time.

What is there is never overwritten; what is missing is added in one commit. A folder with files of
another kind does not become a vault: they would all go into its repository.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UsageProblem, VaultBusy
from core.memory.git import Git
from core.memory.locking import acquire, disk_errors
from core.memory.reference_pages import write_reference
from core.memory.vault import ARTICLES, META, REFERENCES, TALK, Vault
from core.memory.vault_pages import PAGES
from core.memory.writer import Change, editing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date

    from core.memory.writer import Edit

FOLDERS = (ARTICLES, REFERENCES, META, TALK)
"""Of a vault, in the order in which they are made."""
_OWN = frozenset((*FOLDERS, *PAGES, ".git", ".gitattributes", ".gitkeep", ".github"))
_TOLERATED = frozenset((".obsidian", ".trash", ".DS_Store", ".mlxbun", "LICENSE", ".stfolder"))
_PATIENCE = 30.0  # seconds
_NAMED = 3  # files of another kind, in a message


@dataclass(frozen=True, kw_only=True)
class SetupResult:
    """The result of setting up a vault."""

    root: Path
    """The vault, links resolved."""
    created: tuple[str, ...]
    """Folders (with `/` at the end) and files that were missing, relative to the vault."""
    git_initialized: bool
    """Whether the repository was created."""
    already_set_up: bool
    """Whether there was a vault before."""
    imported: tuple[str, ...] = ()
    """Names of the articles that were imported."""


def setup_vault(
    root: Path,
    *,
    git: Git | None = None,
    import_from: Path | None = None,
    on_note: Callable[[str], None],
    today: date | None = None,
) -> SetupResult:
    """Make a folder a vault, or add what a vault lacks.

    Args:
        root: the folder; it is created if it is missing.
        git: its repository; None: the one in `root`.
        import_from: a folder whose Markdown notes become articles.
        on_note: called with one sentence for each thing that was kept, or not imported.
        today: for the names of pages that are kept; None: the day that it is.

    Raises:
        GitMissing: there is no usable git; nothing was created but an empty folder.
        UsageProblem: the folder has files of another kind, or `.git` in it is not a repository of
            its own, or the notes are too many.
        NotFound: there is no folder to import from.
        VaultBusy: another process writes to the vault.
        MlxbunError: the disk is full or may not be written.
    """
    root = Path(os.path.realpath(root))
    git = git if git is not None and git.root == root else Git(root)
    with disk_errors(root, "set up"), _alone(root):
        _refuse_other_files(root)
        notes = None
        if import_from is not None:
            from core.memory.note_import import read_notes

            notes = read_notes(import_from, vault=root)
        was_there = Vault(root).exists
        initialized = git.init()
        if initialized:
            _say_outer_repository(root, on_note)
        made = _make_folders(root)
        vault = Vault(root)
        with editing(vault) as edit:
            files = _add_pages(edit, vault)
            files += _add_reference(edit, vault, today or _today(), on_note)
            imported: tuple[str, ...] = ()
            if notes is not None:
                from core.memory.note_import import import_notes

                imported = import_notes(edit, vault, notes, on_note=on_note)
    return SetupResult(
        root=root,
        created=(*made, *files),
        git_initialized=initialized,
        already_set_up=was_there and not initialized,
        imported=imported,
    )


def _refuse_other_files(root: Path) -> None:
    """Refuse a folder that is neither empty nor a vault.

    Raises:
        UsageProblem: it has files of another kind.
    """
    if not root.is_dir():
        raise UsageProblem(f"{root} is not a folder.")
    names = sorted(entry.name for entry in os.scandir(root))
    if Vault(root).exists and (root / ".git").exists():
        return  # a vault, in which its owner keeps what they like
    others = [name for name in names if name not in _OWN | _TOLERATED]
    if others:
        shown = ", ".join(name.encode(errors="replace").decode() for name in others[:_NAMED])
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        raise UsageProblem(
            f"{root} has other files: {shown}{more}.",
            hint="Choose an empty folder; to import notes, use --from.",
        )


def _make_folders(root: Path) -> list[str]:
    made = []
    for name in FOLDERS:
        folder = root / name
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise UsageProblem(f"{folder} is not a folder.", hint="Move it away.")
        if not folder.exists():
            folder.mkdir()
            made.append(f"{name}/")
    return made


def _add_pages(edit: Edit, vault: Vault) -> list[str]:
    """Write the pages that are missing, in one commit; the first of a vault if it has none."""
    paths = [path for path in PAGES if not os.path.lexists(vault.root / path)]
    changes = [Change(path=path, before=None, after=PAGES[path]) for path in paths]
    if changes:
        edit.commit(changes, "Set up the vault")
    return paths


def _add_reference(
    edit: Edit, vault: Vault, today: date, on_note: Callable[[str], None]
) -> list[str]:
    """Bring `Reference/` up to date and return the pages that are new."""
    before = set(vault.names().reference)
    write_reference(edit, vault, today=today, on_note=on_note)
    return [f"{name}.md" for name in vault.names().reference if name not in before]


def _say_outer_repository(root: Path, on_note: Callable[[str], None]) -> None:
    """Say that the vault lies in another repository, which does not record it."""
    outer = next((p for p in root.parents if os.path.lexists(p / ".git")), None)
    if outer is not None:
        on_note(f"The vault has its own git repository; the one in {outer} does not record it.")


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Create a folder and keep other set-ups of it waiting; after a failure it is not left empty.

    Raises:
        VaultBusy: another set-up of it takes long.
    """
    made = not os.path.lexists(root)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not acquire(descriptor, wait=_PATIENCE):
            raise VaultBusy(f"Another mlxbun is setting up {root}.", hint="Try again later.")
        yield
    except BaseException:
        if made:
            _remove_if_empty(root)
        raise
    finally:
        os.close(descriptor)


def _remove_if_empty(root: Path) -> None:
    try:
        root.rmdir()
    except OSError:
        return


def _today() -> date:
    return datetime.now().astimezone().date()
