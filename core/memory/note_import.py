"""Markdown notes of a folder as articles: names, links between them, and what is left out.

Nothing of the folder is changed, no link in it is followed, and no article is overwritten. Notes of
several folders become one list of names, so that links are rewritten where a name changes.
Attachments are not imported: links to them stay as they are.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from core.errors import BadRequest, NotFound, UsageProblem
from core.memory import lines, links
from core.memory.names import SUFFIX, file_name, name_key
from core.memory.redact.redactor import redactor
from core.memory.vault import LARGEST_PAGE, path_of
from core.memory.writer import Change
from core.units import counted, format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from core.memory.links import FileLink, Link
    from core.memory.vault import Vault
    from core.memory.writer import Edit

MOST_NOTES = 20_000
MOST_BYTES = 256 * 1024 * 1024
"""Notes and bytes of an import; a larger folder is refused as a whole."""
_MOST_ENTRIES = 500_000
_DEEPEST = 32
_SKIPPED = frozenset(("node_modules", "__pycache__"))
_NAMED = 20  # files that were not imported, by name


@dataclass(frozen=True, kw_only=True)
class Note:
    """A Markdown file as it was read."""

    path: PurePosixPath
    """Relative to the folder of the import, without `.md`."""
    text: str
    """What it says."""


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What a folder holds."""

    folder: str
    """Its name."""
    notes: tuple[Note, ...]
    """In the order of their paths."""
    left_out: tuple[tuple[str, str], ...]
    """Path and reason of each file that is not imported."""


def read_notes(folder: Path, *, vault: Path) -> Notes:
    """Read the Markdown files of a folder and of those in it.

    Args:
        folder: any folder.
        vault: the vault that they go to; it is left out where it lies in `folder`.

    Raises:
        NotFound: there is no such folder.
        UsageProblem: it is the vault or lies in it, or has too much.
    """
    root = Path(os.path.realpath(folder))
    if not root.is_dir():
        raise NotFound(f"There is no folder {folder}.")
    if root.is_relative_to(vault):
        raise UsageProblem(f"{folder} is in the vault itself.")
    notes: list[Note] = []
    left_out: list[tuple[str, str]] = []
    total = 0
    for path in _markdown(root, vault, left_out):
        name = path.relative_to(root).as_posix()
        found = _read(path)
        if isinstance(found, str):
            left_out.append((_printable(name), found))
            continue
        total += len(found)
        if len(notes) == MOST_NOTES or total > MOST_BYTES:
            limit = f"{format_count(MOST_NOTES)} notes or {format_bytes(MOST_BYTES)}"
            raise UsageProblem(f"{folder} has more than {limit}.", hint="Import a part of it.")
        _take(name, found, notes, left_out)
    return Notes(folder=root.name, notes=tuple(notes), left_out=tuple(left_out))


def import_notes(
    edit: Edit, vault: Vault, found: Notes, *, on_note: Callable[[str], None]
) -> tuple[str, ...]:
    """Write notes into a vault that is held for writing, in one commit.

    A note whose name an article has already is left out, silently if they say the same. Secrets
    are replaced by placeholders.

    Args:
        edit: the vault.
        vault: the same.
        found: the notes.
        on_note: called with what was not imported, and why.

    Returns:
        Names of the new articles, sorted.
    """
    left_out = list(found.left_out)
    redact = redactor(vault).redact
    names = _names(found.notes, left_out, redact)
    library = _Library(found.notes, names)
    taken = {name_key(name): name for name in vault.names().articles}
    changes: list[Change] = []
    redacted = 0
    for note in found.notes:
        if note.path not in names:
            continue
        name = names[note.path]
        linked = library.relinked(note)
        text = redact(linked)
        other = taken.get(name_key(name))
        if other is None:
            redacted += text != linked
            changes.append(Change(path=path_of(name), before=None, after=text))
        elif not _says(vault, other, text):
            left_out.append((f"{note.path}{SUFFIX}", f"there is an article {other!r} already"))
    if changes:
        edit.commit(changes, f"Import {counted(len(changes), 'note')} from {redact(found.folder)}")
    _report(left_out, redacted, on_note)
    return tuple(sorted(change.path.split("/", 1)[1].removesuffix(SUFFIX) for change in changes))


def _markdown(
    root: Path, vault: Path, left_out: list[tuple[str, str]]
) -> Iterator[Path]:  # fmt: skip
    """Yield the Markdown files below a folder, in order; hidden folders and links are left out."""
    waiting = [root]
    entries = 0
    while waiting:
        folder = waiting.pop()
        name = _printable(folder.relative_to(root).as_posix())
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as problem:
            left_out.append((f"{name}/", problem.strerror or "it cannot be read"))
            continue
        entries += len(found)
        if entries > _MOST_ENTRIES:
            raise UsageProblem(f"{root} has too many files.", hint="Import a part of it.")
        inner = [folder / entry.name for entry in found if _is_walked(entry)]
        if len(folder.relative_to(root).parts) == _DEEPEST and inner:
            left_out.append((f"{name}/*/", f"it is more than {_DEEPEST} folders deep"))
            inner = []
        waiting += [path for path in reversed(inner) if path != vault]
        yield from (folder / entry.name for entry in found if _is_note(entry))


def _is_walked(entry: os.DirEntry[str]) -> bool:
    hidden = entry.name.startswith(".") or entry.name in _SKIPPED
    return not hidden and entry.is_dir(follow_symlinks=False)


def _is_note(entry: os.DirEntry[str]) -> bool:
    named = entry.name.lower().endswith((".md", ".markdown")) and not entry.name.startswith(".")
    return named and not entry.is_dir(follow_symlinks=False)


def _read(path: Path) -> bytes | str:
    """Return the bytes of a note, or why there are none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        if path.is_symlink():
            return "it is a link"
        with os.fdopen(os.open(path, flags), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                return "it is not a regular file"
            if info.st_size > LARGEST_PAGE:
                return f"it is larger than {format_bytes(LARGEST_PAGE)}"
            return file.read(LARGEST_PAGE)
    except OSError as problem:
        return problem.strerror or "it cannot be read"


def _take(
    name: str, data: bytes, notes: list[Note], left_out: list[tuple[str, str]]
) -> None:  # fmt: skip
    try:
        text = data.decode()
        name.encode()
    except UnicodeError:
        left_out.append((_printable(name), "it is not valid UTF-8"))
        return
    notes.append(Note(path=PurePosixPath(name).with_suffix(""), text=text))


def _names(
    notes: Sequence[Note], left_out: list[tuple[str, str]], redact: Callable[[str], str]
) -> dict[PurePosixPath, str]:
    """Give each note the name of an article, without secrets; twins get their folders' names."""
    names: dict[PurePosixPath, str] = {}
    used: set[str] = set()
    for note in notes:
        for candidate in _candidates(PurePosixPath(*map(redact, note.path.parts))):
            if name_key(candidate) not in used:
                used.add(name_key(candidate))
                names[note.path] = candidate
                break
        else:
            left_out.append((f"{note.path}{SUFFIX}", "no file name can be made of its name"))
    return names


def _candidates(path: PurePosixPath) -> Iterator[str]:
    try:
        stem = file_name(path.name)
    except BadRequest:
        return
    yield stem
    folders = " ".join(path.parts[:-1])
    for number in range(1, 1000):
        label = f"{folders} {number}".strip() if number > 1 or not folders else folders
        yield file_name(f"{stem[:80]} ({label[:60]})")


class _Library:
    """The notes of an import, to find the one that a link means."""

    def __init__(self, notes: Sequence[Note], names: dict[PurePosixPath, str]) -> None:
        self.names = names
        self.by_path = {name_key(str(note.path)): note.path for note in reversed(notes)}
        self.by_stem: dict[str, list[PurePosixPath]] = {}
        for note in notes:
            self.by_stem.setdefault(name_key(note.path.name), []).append(note.path)

    def relinked(self, note: Note) -> str:
        """Return the text of a note, with links by the names that notes have now."""
        text, pieces, at = note.text, [], 0
        for start, stop in _paragraphs(text):
            found: list[Link | FileLink] = [*links.wikilinks(text, start, stop)]
            found += links.file_links(text, start, stop)
            for link in sorted(found, key=lambda link: link.start):
                new = self._link(note.path, link)
                if new is not None and _is_row(text, link.start):
                    new = new.replace("|", "\\|")
                if new is not None and link.start >= at:
                    pieces += [text[at : link.start], new]
                    at = link.stop
        return "".join([*pieces, text[at:]])

    def _link(self, here: PurePosixPath, link: Link | FileLink) -> str | None:
        """Return a link as it has to be now; None: it stays."""
        if isinstance(link, links.FileLink):
            return self._file_link(here, link)
        target = self._find(here, link.target) if link.target else None
        if target is None or self.names[target] == link.target:
            return None
        text = link.text.replace("|", " ")
        return _wikilink(self.names[target], link.anchor, text, embed=link.embed)

    def _file_link(self, here: PurePosixPath, link: FileLink) -> str | None:
        path = unquote(link.path)
        if not path.lower().endswith((".md", ".markdown")):
            return None
        target = self._find(here, path.rsplit(".", 1)[0])
        if target is None:
            return None
        anchor = unquote(link.anchor)
        text = link.text or self.names[target]
        return _wikilink(self.names[target], anchor, text, embed=link.embed)

    def _find(self, here: PurePosixPath, target: str) -> PurePosixPath | None:
        """Return the note that a link means: by its path from here or from the top, or its name."""
        wanted = target.removesuffix(SUFFIX)
        for base in (here.parent, PurePosixPath()):
            path = _joined(base, wanted)
            found = self.by_path.get(name_key(path)) if path is not None else None
            if found in self.names:
                return found
        twins = self.by_stem.get(name_key(PurePosixPath(wanted).name), [])
        fitting = [path for path in twins if path in self.names and _ends(path, wanted)]
        return min(fitting, key=lambda path: (len(path.parts), str(path)), default=None)


def _is_row(text: str, offset: int) -> bool:
    """Return whether a place is in a row of a table, where the bar of a link is escaped."""
    return text[text.rfind("\n", 0, offset) + 1 : offset].lstrip().startswith("|")


def _wikilink(name: str, anchor: str, text: str, *, embed: bool) -> str:
    mark = "!" if embed else ""
    place = f"#{anchor}" if anchor else ""
    shown = f"|{text}" if text and text != name else ""
    return f"{mark}[[{name}{place}{shown}]]"


def _joined(base: PurePosixPath, target: str) -> str | None:
    """Return a relative path from the top; None: it leads out of the folder."""
    parts: list[str] = [] if target.startswith("/") else list(base.parts)
    for part in target.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _ends(path: PurePosixPath, target: str) -> bool:
    """Return whether a path ends in a link's target: `b/c` in `a/b/c`."""
    wanted = [name_key(part) for part in target.split("/") if part not in ("", ".", "..")]
    return [name_key(part) for part in path.parts[-len(wanted) :]] == wanted


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield runs of lines that may share links, code left out."""
    start = stop = -1
    for line in lines.scan(text):
        if line.kind in ("text", "quote", "list", "more") and stop >= 0 and line.kind != "list":
            stop = line.stop
            continue
        if stop >= 0:
            yield start, stop
            start = stop = -1
        if line.kind in ("text", "list", "quote", "table", "note", "more", "heading"):
            start, stop = line.start, line.stop
    if stop >= 0:
        yield start, stop


def _says(vault: Vault, name: str, text: str) -> bool:
    try:
        return vault.read(path_of(name), whole=False).text == text
    except NotFound:
        return False


def _report(
    left_out: Sequence[tuple[str, str]], redacted: int, on_note: Callable[[str], None]
) -> None:  # fmt: skip
    for path, reason in left_out[:_NAMED]:
        on_note(f"{path} was not imported: {reason}.")
    if len(left_out) > _NAMED:
        on_note(f"{len(left_out) - _NAMED} more notes were not imported.")
    if redacted:
        on_note(f"Secrets were replaced by placeholders in {counted(redacted, 'note')}.")


def _printable(name: str) -> str:
    return name.encode(errors="replace").decode()
