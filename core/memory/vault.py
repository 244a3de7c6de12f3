"""The vault's files: which pages there are, which one a name means, what it says.

Reads only. No symbolic link inside of the vault is followed, and nothing but regular files is
opened, so that what a name leads to always lies in the vault.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from core.errors import NotFound, StoreCorrupt, UsageProblem, VaultMissing
from core.memory.article import parse
from core.memory.names import REFERENCE, SUFFIX, checked_name, is_name, name_key
from core.memory.plain import shortened
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ARTICLES, REFERENCES, META, TALK = "articles", "Reference", "Meta", "Talk"
"""Folders of a vault."""
LARGEST_PAGE = 2 * 1024 * 1024
"""Bytes of a page at most."""
_HEAD = 8 * 1024
"""Bytes of an article in which title and aliases are looked for."""
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class Names:
    """The pages of a vault."""

    articles: tuple[str, ...]
    """Names, sorted."""
    reference: tuple[str, ...]
    """`Reference/X`, sorted."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A file of the vault as it was read."""

    name: str
    """`X`, or `Reference/X`; for other folders the path without `.md`."""
    path: str
    """Relative to the vault, with `/`: `articles/X.md`."""
    text: str
    """What it says; bytes that are not UTF-8 are shown as U+FFFD."""
    digest: str
    """SHA-256 of the bytes that were read, in hexadecimal."""
    size: int
    """Bytes of the file."""
    mtime: float
    """When it was last written, in seconds since 1970."""
    truncated: bool = False
    """Whether the file has more than was read; only where the caller allowed it."""
    valid: bool = True
    """Whether the bytes are UTF-8; if not, the text cannot be written back, so do not edit it."""

    @property
    def warning(self) -> str | None:
        """What a reader has to know about the text, one sentence; None: nothing."""
        if not self.valid:
            return f"{self.path} is not valid UTF-8; undecodable bytes are shown as \ufffd."
        if self.truncated:
            return f"{self.path} has {format_bytes(self.size)}; only the beginning is shown."
        return None


class HasRoot(Protocol):
    """A vault, for callers that need only its folder."""

    @property
    def root(self) -> Path:
        """Its folder."""
        ...


class Vault:
    """A vault on the disk. Keeps the aliases that it has read, nothing else."""

    def __init__(self, root: Path) -> None:
        """Take the folder of a vault, links resolved; it need not exist."""
        self.root = Path(os.path.realpath(root))
        self._heads: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}

    @property
    def exists(self) -> bool:
        """Whether there is a vault."""
        return _is_folder(self.root / ARTICLES)

    @property
    def is_git(self) -> bool:
        """Whether the vault is the top level of a git repository."""
        return os.path.lexists(self.root / ".git")

    def names(self) -> Names:
        """Return the names of all pages in `articles/` and `Reference/`.

        Raises:
            StoreCorrupt: a folder cannot be read.
            VaultMissing: there is no vault.
        """
        if not self.exists:
            raise missing(self.root)
        return Names(
            articles=tuple(sorted(entry.name[:-3] for entry in self.entries(ARTICLES))),
            reference=tuple(
                sorted(REFERENCE + entry.name[:-3] for entry in self.entries(REFERENCES))
            ),
        )

    def entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield the pages right inside of a folder: regular files with a valid name and `.md`.

        Raises:
            StoreCorrupt: the folder cannot be read.
        """
        if not _is_folder(self.root / folder):
            return
        try:
            with os.scandir(self.root / folder) as found:
                entries = list(found)
        except OSError as error:
            raise _read_failure(f"{folder}/", error) from error
        for entry in entries:
            named = entry.name.endswith(SUFFIX) and is_name(entry.name.removesuffix(SUFFIX))
            if named and entry.is_file(follow_symlinks=False):
                yield entry

    def find(self, name: str) -> str:
        """Return the path of the page that a name means, relative to the vault.

        The exact name wins, then one that differs in case, form or underscores, then titles and
        aliases. `Reference/X` looks in `Reference/`, every other name in `articles/`.

        Raises:
            BadRequest: the name cannot be one (field `name`).
            NotFound: there is no such page; the hint has names like it.
            VaultMissing: there is no vault.
        """
        wanted = checked_name(name)
        names = self.names()
        pool = names.reference if wanted.startswith(REFERENCE) else names.articles
        found = _match(wanted, pool) or self._by_alias(wanted, names.articles)
        if found is None:
            raise _unknown(wanted, pool)
        return path_of(found)

    def read(self, path_or_name: str, *, whole: bool = True) -> Page:
        """Return a page, by its name or its path in the vault.

        Args:
            path_or_name: a name as for `find`, or a path that begins with a folder of the vault
                and ends in `.md`.
            whole: refuse pages larger than `LARGEST_PAGE`; else only their beginning is read.

        Raises:
            BadRequest: the name cannot be one (field `name`).
            NotFound: there is no such page, or it is not a regular file.
            StoreCorrupt: the file cannot be read.
            UsageProblem: it is too large.
            VaultMissing: there is no vault.
        """
        path = path_or_name if _is_path(path_or_name) else self.find(path_or_name)
        data, info = self._bytes(path, LARGEST_PAGE)
        truncated = info.st_size > len(data)
        if truncated and whole:
            message = f"{path} has {format_bytes(info.st_size)}"
            limit = format_bytes(LARGEST_PAGE)
            raise UsageProblem(f"{message}; pages of up to {limit} are read.")
        text, valid = _decoded(data, cut=truncated)
        return Page(
            name=name_of(path),
            path=path,
            text=text,
            digest=hashlib.sha256(data).hexdigest(),
            size=info.st_size,
            mtime=info.st_mtime,
            truncated=truncated,
            valid=valid,
        )

    def raw(self, page: Page) -> bytes:
        """Return the bytes of a page that was read, also where they are not UTF-8.

        Raises:
            NotFound: it is gone, or is not a regular file.
            StoreCorrupt: the file cannot be read.
        """
        return page.text.encode() if page.valid else self._bytes(page.path, LARGEST_PAGE)[0]

    def data(self, path: str, *, limit: int) -> bytes:
        """Return the bytes of a file, at most so many, by its path in the vault.

        Raises:
            NotFound: there is none, or it is not a regular file.
            StoreCorrupt: the file cannot be read.
        """
        return self._bytes(path, limit)[0]

    def aliases(self, name: str) -> tuple[str, ...]:
        """Return title and aliases of an article; none if it cannot be read."""
        path = path_of(name)
        try:
            info = (self.root / path).lstat()
            stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
            if name not in self._heads or self._heads[name][0] != stamp:
                self._heads[name] = (stamp, self._read_aliases(path))
        except (OSError, NotFound, StoreCorrupt):
            return ()
        return self._heads[name][1]

    def _read_aliases(self, path: str) -> tuple[str, ...]:
        data, info = self._bytes(path, _HEAD)
        text, _ = _decoded(data, cut=info.st_size > len(data))
        section = text.find("\n## ")  # one in code does no harm: title and aliases come earlier
        article = parse(text if section < 0 else text[: section + 1])
        return ((article.title,) if article.title else ()) + article.aliases

    def _by_alias(self, wanted: str, articles: Sequence[str]) -> str | None:
        if wanted.startswith(REFERENCE):
            return None
        key = name_key(wanted)
        matches = (n for n in articles if any(name_key(a) == key for a in self.aliases(n)))
        return next(matches, None)

    def _bytes(self, path: str, limit: int) -> tuple[bytes, os.stat_result]:
        """Return the beginning of a file: at most `limit` bytes, and what it is."""
        try:
            descriptor = self._open(path)
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                os.close(descriptor)  # Python makes no file of a folder
                raise NotFound(f"{path} is not a regular file.")
            with os.fdopen(descriptor, "rb") as file:
                return file.read(limit), info
        except OSError as error:
            raise _read_failure(path, error) from error

    def _open(self, path: str) -> int:
        """Open a file of the vault, one folder after another: a link on the way is an error."""
        *folders, name = PurePosixPath(path).parts
        folder = os.open(self.root, _OPEN | os.O_DIRECTORY)
        try:
            for part in folders:
                inner = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = inner
            return os.open(name, _OPEN, dir_fd=folder)
        finally:
            os.close(folder)


def open_vault(root: Path) -> Vault:
    """Return the vault in a folder.

    Raises:
        VaultMissing: there is none.
    """
    vault = Vault(root)
    if not vault.exists:
        raise missing(root)
    return vault


def missing(root: Path) -> VaultMissing:
    """Return the error for a folder without a vault."""
    return VaultMissing(
        f"There is no memory vault at {root}.", hint="Create one with: mlxbun memory init"
    )


def path_of(name: str) -> str:
    """Return where the page with this name lies: `articles/NAME.md` or `Reference/X.md`."""
    return f"{name}{SUFFIX}" if name.startswith(REFERENCE) else f"{ARTICLES}/{name}{SUFFIX}"


def talk_path(name: str) -> str:
    """Return where the Talk page of an article lies: `Talk/NAME.md`."""
    return f"{TALK}/{name}{SUFFIX}"


def name_of(path: str) -> str:
    """Return the name of the page at a path."""
    return path.removeprefix(f"{ARTICLES}/").removesuffix(SUFFIX)


def _is_path(text: str) -> bool:
    """Return whether a text is the path of a page, and not a name."""
    parts = text.split("/")
    folders = (ARTICLES, REFERENCES, META, TALK)
    inside = len(parts) > 1 and parts[0] in folders and text.endswith(SUFFIX)
    return inside and "\x00" not in text and not any(part in ("", ".", "..") for part in parts)


def _match(wanted: str, pool: Sequence[str]) -> str | None:
    if wanted in pool:
        return wanted
    key = name_key(wanted)
    return next((name for name in pool if name_key(name) == key), None)


def _unknown(name: str, pool: Sequence[str]) -> NotFound:
    shown = shortened(name, 80)
    key = name_key(name[:80])
    within = [each for each in pool if key in name_key(each)]
    close = within or difflib.get_close_matches(name[:80], pool[:2000], n=3, cutoff=0.6)
    hint = f"Similar names: {', '.join(close[:3])}." if close else "List all: mlxbun memory list"
    return NotFound(f"There is no article named {shown!r}.", hint=hint)


def _read_failure(path: str, error: OSError) -> NotFound | StoreCorrupt:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return NotFound(f"There is no {path} in the vault.")
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
        return NotFound(f"{path} is not a regular file.")
    return StoreCorrupt(f"Cannot read {path}: {error.strerror or error}.")


def _decoded(data: bytes, *, cut: bool) -> tuple[str, bool]:
    """Return bytes as text, and whether they are UTF-8; a cut may fall into a character."""
    try:
        return data.decode(), True
    except UnicodeDecodeError as error:
        if cut and error.start >= len(data) - 3:
            return data[: error.start].decode(), True
        return data.decode(errors="replace"), False


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False
