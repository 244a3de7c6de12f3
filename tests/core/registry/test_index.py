"""The index keeps what it is given, and whatever is wrong with its file is no trouble."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from core.registry.index import MIGRATIONS, Aside, Entry, Kept, load_index, save_index

ONE = {"/a": Entry(fingerprint=b"\0\xff", facts="{}")}
NOTHING = Kept(folders={}, asides={})
ODD = os.fsdecode(b"/odd\xff\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "library.db"


def test_what_is_kept_comes_back(path: Path) -> None:
    assert load_index(path) == NOTHING
    asides = {"x": Aside(stamp="s", content="[]")}
    odd = {ODD: Entry(fingerprint=b"1", facts='"\\udcff"')}
    assert save_index(path, folders=ONE | odd, asides=asides)
    assert load_index(path) == Kept(folders=ONE | odd, asides=asides)
    newer = {"/a": Entry(fingerprint=b"2", facts="[]")}
    assert save_index(path, folders=newer, gone=[ODD])
    assert load_index(path) == Kept(folders=newer, asides=asides)


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(5000))


def _half(path: Path) -> None:
    save_index(path, folders={f"/{n}": Entry(fingerprint=b"", facts="x" * 999) for n in range(99)})
    os.truncate(path, path.stat().st_size // 2)


def _damaged_inside(path: Path) -> None:
    _half(path)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xaa" * (len(data) - 4096)
    path.write_bytes(data)


def _version(path: Path, version: int) -> None:
    save_index(path, folders=ONE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE folder RENAME TO other")
        connection.execute(f"PRAGMA user_version = {version}")


def _other_tables(path: Path) -> None:
    _version(path, len(MIGRATIONS))


def _other_kinds(path: Path) -> None:
    save_index(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO folder VALUES ('/b', 7, x'00')")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "garbage": _garbage,
    "empty": lambda path: path.write_bytes(b""),
    "cut": _half,
    "damaged inside": _damaged_inside,
    "of a later version": lambda path: _version(path, len(MIGRATIONS) + 1),
    "with other tables": _other_tables,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_made_anew(path: Path, damage: Callable[[Path], object]) -> None:
    path.parent.mkdir()
    damage(path)
    assert load_index(path) == NOTHING
    assert save_index(path, folders=ONE)
    assert load_index(path).folders == ONE


def test_values_of_another_kind_are_as_good_as_none(path: Path) -> None:
    _other_kinds(path)
    assert load_index(path) == NOTHING


def test_a_folder_in_its_place(path: Path) -> None:
    path.mkdir(parents=True)
    assert load_index(path) == NOTHING
    assert not save_index(path, folders=ONE)


def test_a_file_in_place_of_its_folder(path: Path) -> None:
    path.parent.write_text("")
    assert load_index(path) == NOTHING
    assert not save_index(path, folders=ONE)


def test_another_process_that_writes_is_not_waited_for_long(path: Path) -> None:
    save_index(path, folders=ONE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert load_index(path) == NOTHING
        assert not save_index(path, folders={})
    assert load_index(path).folders == ONE


SAVE = """
import resource, sys
from pathlib import Path
from core.registry.index import Entry, load_index, save_index
path = Path(sys.argv[1])
many = {f"/{n}": Entry(fingerprint=b"1", facts="x" * 10_000) for n in range(100)}
if sys.argv[2] == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
elif sys.argv[2] == "nobody":
    import os
    os.setuid(65534)
print(len(load_index(path).folders), save_index(path, folders=many))
"""


def _process(path: Path, how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SAVE, str(path), how],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("before", [0, 1])
def test_a_full_disk_leaves_what_was_there(path: Path, before: int) -> None:
    if before:
        save_index(path, folders=ONE)
    assert _process(path, "full") == f"{before} False"
    assert load_index(path).folders == (ONE if before else {})
    assert save_index(path, folders=ONE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    # pytest's folders are closed to others.
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "library.db"
        save_index(path, folders=ONE)
        folder.chmod(0o555)
        path.chmod(0o444)
        try:
            assert _process(path, "nobody") == "1 False"
            assert _process(folder / "none" / "library.db", "nobody") == "0 False"
        finally:
            folder.chmod(0o755)


@pytest.mark.parametrize("damage", [None, *DAMAGE.values()], ids=["whole", *DAMAGE])
def test_processes_at_the_same_time(path: Path, damage: Callable[[Path], object] | None) -> None:
    path.parent.mkdir()
    if damage is not None:
        damage(path)
    code = """
import sys
from pathlib import Path
from core.registry.index import Entry, load_index, save_index
for n in range(20):
    key = f"/{sys.argv[2]}/{n}"
    save_index(Path(sys.argv[1]), folders={key: Entry(fingerprint=b"1", facts=key)})
    assert all(entry.facts == key for key, entry in load_index(Path(sys.argv[1])).folders.items())
"""

    def run(number: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, str(path), str(number)],
            capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
        )  # fmt: skip

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(4)))
    assert [result.stderr for result in results] == [""] * 4
    kept = load_index(path).folders
    assert kept
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
