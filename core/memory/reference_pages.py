"""mlxbun's own documentation as pages of the vault: `Reference/*.md`, made of `docs/*.md`.

The pages are package data. `Meta/reference.json` says what was written: of which edition, and the
hash of each page. When the edition of the installed mlxbun differs, all pages are written anew in
one commit. A page that the user has changed since is kept beside the new one, under another name.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import NotFound
from core.memory.vault import META, REFERENCES, Vault
from core.memory.writer import Change, editing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from core.memory.writer import Edit

RECORD = f"{META}/reference.json"
"""What was written to `Reference/`."""
_FOLDER = Path(__file__).parent / "reference"
_LARGEST_RECORD = 256 * 1024


@dataclass(frozen=True, kw_only=True)
class _Record:
    """What mlxbun has written to `Reference/`."""

    edition: str
    """Hash over all pages; empty: nothing was written."""
    pages: Mapping[str, str]
    """SHA-256 by path."""
    before: str | None
    """SHA-256 of the record's own file; None: there is none."""


@cache
def shipped() -> dict[str, str]:
    """Return the pages of this mlxbun: their text by path in a vault, sorted by path."""
    files = sorted(_FOLDER.glob("*.md"))
    return {f"{REFERENCES}/{file.name}": file.read_text(encoding="utf-8") for file in files}


@cache
def edition() -> str:
    """Return the hash over the pages of this mlxbun."""
    return _digest("".join(f"{path}\0{_digest(text)}\0" for path, text in shipped().items()))


def is_current(vault: Vault) -> bool:
    """Return whether the pages in a vault are those of this mlxbun; one small file is read."""
    return _record(vault).edition == edition()


def refresh_reference(vault: Vault, *, today: date, on_note: Callable[[str], None]) -> str | None:
    """Bring `Reference/` up to date, in a commit of its own.

    Args:
        vault: a vault with a git repository.
        today: for the names of pages that are kept.
        on_note: hears where the user's versions of pages were kept.

    Returns:
        The commit; None: nothing had to change.

    Raises:
        VaultBusy: another process writes to the vault.
        MlxbunError: the vault cannot be written.
    """
    if is_current(vault):
        return None
    with editing(vault) as edit:
        return write_reference(edit, vault, today=today, on_note=on_note)


def write_reference(
    edit: Edit, vault: Vault, *, today: date, on_note: Callable[[str], None]
) -> str | None:
    """Do the same in a vault that is held for writing."""
    record = _record(vault)
    if record.edition == edition():
        return None
    changes, kept = _planned(vault, record, today)
    commit = edit.commit(changes, "Update the documentation in Reference")
    for path, copy in kept.items():
        on_note(f"Your version of {path} is now {copy}; {path} was updated.")
    return commit


def _planned(vault: Vault, record: _Record, today: date) -> tuple[list[Change], dict[str, str]]:
    """Return the changes that an update makes, and where the user's versions of pages go."""
    changes = [
        Change(path=RECORD, before=record.before, after=_written(shipped())),
    ]
    kept: dict[str, str] = {}
    for path in sorted({*shipped(), *record.pages}):
        before, text = _now(vault, path)
        is_ours = before is None or before == record.pages.get(path)
        after = shipped().get(path)
        if before == (_digest(after) if after is not None else None):
            continue
        if is_ours:
            changes.append(Change(path=path, before=before, after=after))
        elif after is not None:
            kept[path] = _free(vault, path, today)
            changes.append(Change(path=kept[path], before=None, after=text))
            changes.append(Change(path=path, before=before, after=after))
    return changes, kept


def _free(vault: Vault, path: str, today: date) -> str:
    """Return a path under which the user's version of a page can be kept."""
    stem = f"{path.removesuffix('.md')} (edited, {today.isoformat()}"
    names = [f"{stem}).md", *(f"{stem}, {number}).md" for number in range(2, 1000))]
    return next(name for name in names if _now(vault, name)[0] is None)


def _now(vault: Vault, path: str) -> tuple[str | None, str]:
    """Return hash and text of a page in the vault; None: there is none."""
    try:
        page = vault.read(path)
    except NotFound:
        return None, ""
    return page.digest, vault.raw(page).decode("utf-8", "surrogateescape")


def _record(vault: Vault) -> _Record:
    """Return what was written; one that makes no sense counts as nothing."""
    try:
        data = vault.data(RECORD, limit=_LARGEST_RECORD)
    except NotFound:
        return _Record(edition="", pages={}, before=None)
    before = hashlib.sha256(data).hexdigest()
    try:
        found: Any = json.loads(data)
        pages = {str(path): str(digest) for path, digest in found["pages"].items()}
        return _Record(edition=str(found["edition"]), pages=pages, before=before)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return _Record(edition="", pages={}, before=before)


def _written(pages: Mapping[str, str]) -> str:
    digests = {path: _digest(text) for path, text in pages.items()}
    return json.dumps({"edition": edition(), "pages": digests}, indent=1) + "\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
