"""mlxbun's own documentation as pages of the vault: `Reference/*.md`, made of `docs/*.md`.

The pages are package data. `Meta/reference.json` says what was written: by which version of mlxbun,
of which edition (a hash over all pages), and the hash of each page. When the installed mlxbun has
another edition and is not older, `init` and `synthesize` write all pages anew in one commit; verbs
that read write nothing. A page that the user has changed since is kept beside the new one, under
another name.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError, NotFound
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

    version: str
    """Of the mlxbun that wrote it; may be empty."""
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
    """Return whether the pages in a vault are those of this mlxbun, or of a newer one."""
    return _is_current(_record(vault))


def _is_current(record: _Record) -> bool:
    return record.edition == edition() or _numbers(record.version) > _numbers(_version())


def _version() -> str:
    try:
        return version("mlxbun")
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version, to compare it."""
    match = re.match(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def is_outdated(vault: Vault) -> bool:
    """Return whether mlxbun has written `Reference/`, and another edition of it."""
    record = _record(vault)
    return vault.is_git and bool(record.edition) and not _is_current(record)


def keep_current(vault: Vault, *, on_note: Callable[[str], None]) -> None:
    """Bring `Reference/` up to date where mlxbun has written it and can do so now.

    Part of other work: whatever is in the way does not stop it.
    """
    if not is_outdated(vault):
        return
    try:
        refresh_reference(vault, today=datetime.now().astimezone().date(), on_note=on_note)
    except MlxbunError as problem:
        on_note(f"The documentation in Reference could not be updated: {problem.message}")


def refresh_reference(vault: Vault, *, today: date, on_note: Callable[[str], None]) -> str | None:
    """Bring `Reference/` up to date, in a commit of its own.

    Args:
        vault: a vault with a git repository.
        today: for the names of pages that are kept.
        on_note: called with where the user's versions of pages were kept.

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
    if _is_current(record):
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
        return _Record(version="", edition="", pages={}, before=None)
    before = hashlib.sha256(data).hexdigest()
    try:
        found: Any = json.loads(data)
        pages = {str(path): str(digest) for path, digest in found["pages"].items()}
        return _Record(
            version=str(found.get("version", "")),
            edition=str(found["edition"]),
            pages=pages,
            before=before,
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return _Record(version="", edition="", pages={}, before=before)


def _written(pages: Mapping[str, str]) -> str:
    digests = {path: _digest(text) for path, text in pages.items()}
    record = {"version": _version(), "edition": edition(), "pages": digests}
    return json.dumps(record, indent=1) + "\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
