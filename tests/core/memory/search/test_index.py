"""Search in a vault: what is found, how it is ranked, and that it is as fresh as the files."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import BadRequest, MlxbunError
from core.memory.search.document import LONGEST_EXCERPT
from core.memory.search.index import SearchIndex, SearchResult
from core.memory.search.query import LONGEST_QUERY, MOST_TERMS
from core.memory.vault import LARGEST_PAGE, Vault

ADA = """\
# Ada Lovelace

```info
type: person
aliases: Augusta, Gr\u00e4fin
```

Ada moved to Lyon.[^1]

## Work

She writes C++ and foo-bar, a"b and NEAR( things AND more.

## Work

Twin section about \u041c\u043e\u0441\u043a\u0432\u0430.

## 東京

先週、東京都に行った。
"""


class Place:
    """A vault with its index."""

    def __init__(self, root: Path) -> None:
        self.vault = Vault(root / "wiki")
        self.file = root / "cache" / "search.db"
        self.notes: list[str] = []
        for folder in ("articles", "Reference"):
            (root / "wiki" / folder).mkdir(parents=True)
        self.index = self.another()

    def another(self) -> SearchIndex:
        """Return the index as another process has it."""
        return SearchIndex(self.file, on_note=self.notes.append)

    def path(self, name: str, folder: str = "articles") -> Path:
        return self.vault.root / folder / f"{name}.md"

    def write(self, name: str, text: str, folder: str = "articles") -> Path:
        self.path(name, folder).write_text(text, encoding="utf-8")
        return self.path(name, folder)

    def found(self, query: str, index: SearchIndex | None = None) -> list[str]:
        result = (index or self.index).search(self.vault, query)
        return [summary.article for summary in result.summaries]

    def search(self, query: str, **more: object) -> SearchResult:
        return self.index.search(self.vault, query, **more)  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    "query",
    [
        *("lyon", "LYON", "ly\u00f6n", "Ada Lyon", '"moved to Lyon"', "mov*", "augusta", "grafin"),
        *(
            "C++",
            "c",
            "foo-bar",
            "foo bar",
            "AND",
            "NEAR(",
            'a"b',
            '"',
            '"lyon',
            "lyon*",
            '"ada mov"*',
        ),
        *("東京", "東", "都", "行った", "東京都に", "た", "\u043c\u043e\u0441\u043a\u0432\u0430"),
        *("lyon OR", "(ada)", "-ada", "ada + lyon", "{ada lovelace}: ada"),
    ],
)
def test_what_a_person_types_finds_the_article(place: Place, query: str) -> None:
    place.write("Ada Lovelace", ADA)
    assert place.found(query) == ([] if query == '"' else ["Ada Lovelace"])


@pytest.mark.parametrize("query", ["", " ", "*", "!!!", '""', '"*"', "C#"])
def test_nothing_is_an_empty_answer(place: Place, query: str) -> None:
    place.write("Ada Lovelace", ADA)
    assert place.search(query) == SearchResult(summaries=(), hits=())


@pytest.mark.parametrize(
    "query", ['"Lyon moved"', "nosuchword", "京東", "大阪", "title:ada", "ada^2"]
)
def test_what_is_not_there_is_not_found(place: Place, query: str) -> None:
    place.write("Ada Lovelace", ADA)
    assert place.found(query) == []


def test_hits_say_where(place: Place) -> None:
    place.write("Ada Lovelace", ADA)
    (summary,) = place.search("Ada Lyon").summaries
    assert (summary.occurrences, summary.matched_terms) == (3, ("Ada", "Lyon"))
    hits = place.search("Ada Lyon").hits
    assert [(hit.anchor, hit.line, hit.excerpt) for hit in hits] == [
        (None, 1, "# Ada Lovelace"),
        (None, 8, "Ada moved to Lyon.[^1]"),
    ]
    (hit,) = place.search("Twin").hits
    assert (hit.anchor, hit.line) == ("work-1", 16)
    assert [(h.anchor, h.line) for h in place.search("東京").hits] == [("東京", 18), ("東京", 20)]


def test_titles_count_more_than_aliases_and_these_more_than_text(place: Place) -> None:
    rest = "filler words stand here to make a longer text. " * 3
    place.write("Text", f"# Text\n\nRust is named here. {rest}")
    place.write("Alias", f"# Alias\n\n```info\naliases: Rust\n```\n\n{rest}")
    place.write("Rust", f"# Rust\n\nA language. {rest}")
    for number in range(9):
        place.write(f"Other {number}", f"# Other {number}\n\n{rest}")
    assert place.found("rust") == ["Rust", "Alias", "Text"]


def test_all_words_then_beginnings_then_some_words(place: Place) -> None:
    place.write("Both", "# Both\n\nred green")
    place.write("One", "# One\n\nred blueish")
    assert place.found("red green") == ["Both"]
    assert place.found("red blue") == ["One"]
    result = place.search("red zebra")
    assert {s.article: s.matched_terms for s in result.summaries} == {
        "Both": ("red",),
        "One": ("red",),
    }
    assert place.found("zeb blu") == ["One"]


def test_a_name_is_found_that_the_text_does_not_hold(place: Place) -> None:
    place.write("Quantum", "Nothing about it.\n\n## Part")
    result = place.search("quantum")
    assert [(s.article, s.occurrences) for s in result.summaries] == [("Quantum", 1)]
    assert [(h.line, h.excerpt) for h in result.hits] == [(1, "Nothing about it.")]


def test_scope_and_limit(place: Place) -> None:
    for number in range(5):
        place.write(f"A{number}", "lyon " * (number + 1))
    place.write("Docs", "lyon", folder="Reference")
    assert place.search("lyon", scope="reference").summaries[0].article == "Reference/Docs"
    assert len(place.search("lyon", scope="articles").summaries) == 5
    assert len(place.search("lyon").summaries) == 6
    limited = place.search("lyon", limit=2)
    assert (len(limited.summaries), len(limited.hits)) == (2, 2)
    for limit in (0, 201):
        with pytest.raises(BadRequest) as raised:
            place.search("lyon", limit=limit)
        assert raised.value.field == "limit"


def test_a_query_has_bounds(place: Place) -> None:
    place.write("One", "東京")
    many = " ".join(f"w{number}" for number in range(MOST_TERMS + 1))
    for query in ("a" * (LONGEST_QUERY + 1), many):
        with pytest.raises(BadRequest) as raised:
            place.search(query)
        assert raised.value.field == "q"
    assert place.found("東" * LONGEST_QUERY) == []


def test_excerpts_are_short_and_hold_the_word(place: Place) -> None:
    place.write("Long", f"{'before ' * 5000}needle{' after' * 5000}\n{'x' * 100_000}")
    for query in ("needle", "x" * 100):
        (hit,) = place.search(query).hits
        assert len(hit.excerpt) <= LONGEST_EXCERPT
    assert "needle" in place.search("needle").hits[0].excerpt


def test_every_change_is_seen_at_the_next_search(place: Place) -> None:
    place.write("One", "alpha")
    assert place.found("alpha") == ["One"]
    place.write("One", "gamma")
    assert (place.found("alpha"), place.found("gamma")) == ([], ["One"])
    place.path("One").rename(place.path("Two"))
    assert place.found("gamma") == ["Two"]
    place.write("Three", "gamma")
    assert sorted(place.found("gamma")) == ["Three", "Two"]
    place.path("Two").unlink()
    assert place.found("gamma") == ["Three"]


def test_a_change_of_the_same_size_and_time_is_seen(place: Place) -> None:
    file = place.write("One", "alpha")
    assert place.found("alpha") == ["One"]
    before = file.stat()
    file.write_text("gamma")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert place.found("gamma") == ["One"]


def test_only_what_changed_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    from core.memory.search import files

    original = files.read

    def watched(root: Path, path: str) -> files.Content | str:
        read.append(path)
        return original(root, path)

    monkeypatch.setattr(files, "read", watched)
    monkeypatch.setattr(files, "_GRAIN_NS", -(10**18))  # every file is old enough
    for number in range(5):
        place.write(f"A{number}", "alpha")
    place.found("alpha")
    assert len(read) == 5
    place.found("alpha")
    place.found("alpha", place.another())  # and in another process
    assert len(read) == 5
    place.write("A3", "gamma")
    place.found("alpha")
    assert read[5:] == ["articles/A3.md"]


def test_a_touched_file_is_not_indexed_again(place: Place) -> None:
    file = place.write("One", "alpha")
    place.found("alpha")
    with sqlite3.connect(place.file) as connection:
        ((before,),) = connection.execute("SELECT id FROM file")
    os.utime(file, (1, 1))
    assert place.found("alpha") == ["One"]
    with sqlite3.connect(place.file) as connection:
        assert connection.execute("SELECT id FROM file").fetchall() == [(before,)]


def test_two_processes_see_each_others_changes(place: Place) -> None:
    other = place.another()
    place.write("One", "alpha")
    assert place.found("alpha") == place.found("alpha", other) == ["One"]
    place.write("Two", "alpha")
    assert sorted(place.found("alpha", other)) == ["One", "Two"]
    place.path("One").unlink()
    assert place.found("alpha") == ["Two"]
    assert place.found("alpha", other) == ["Two"]


def test_processes_that_build_the_index_at_once(place: Place) -> None:
    for number in range(60):
        place.write(f"A{number}", f"alpha word{number}")
    program = (
        "import sys; from pathlib import Path; from core.memory.search.index import SearchIndex\n"
        "from core.memory.vault import Vault\n"
        "index, vault = SearchIndex(Path(sys.argv[1])), Vault(Path(sys.argv[2]))\n"
        "print(len(index.search(vault, 'alpha', limit=200).summaries))"
    )
    command = [sys.executable, "-c", program, str(place.file), str(place.vault.root)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["60\n"] * 3
    assert len(place.search("alpha", limit=200).summaries) == 60


def test_only_the_user_can_read_the_index(place: Place) -> None:
    place.write("One", "alpha")
    place.found("alpha")
    assert [stat.S_IMODE(f.stat().st_mode) for f in place.file.parent.iterdir()] == [0o600]
    assert stat.S_IMODE(place.file.parent.stat().st_mode) == 0o700


def _scribble(file: Path) -> None:
    file.write_bytes(b"this was a database" * 500)


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _age(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 1")


def _drop(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE document")


def _drop_words(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE words")


@pytest.mark.parametrize("harm", [_scribble, _cut, _age, _drop, _drop_words, Path.unlink])
@pytest.mark.parametrize("warm", [True, False])
def test_a_useless_index_is_made_again(
    place: Place, harm: Callable[[Path], object], warm: bool
) -> None:
    for number in range(30):
        place.write(f"A{number}", f"alpha {'text ' * 500}")
    place.write("Secret", "hidden")
    place.found("alpha")
    harm(place.file)
    index = place.index if warm else place.another()
    assert len(place.found("alpha", index)) == 30
    assert place.found("hidden", index) == ["Secret"]
    left = {path.name for path in place.file.parent.iterdir()}
    assert left <= {"search.db", "search.db.lock"}  # nothing is kept aside


def test_without_a_folder_for_it_the_index_is_in_memory(place: Place) -> None:
    place.write("One", "alpha")
    place.file.parent.write_text("a file where the folder should be")
    assert place.found("alpha") == ["One"]
    assert len(place.notes) == 1
    assert "is kept in memory" in place.notes[0]
    place.write("Two", "alpha")
    assert sorted(place.found("alpha")) == ["One", "Two"]
    assert len(place.notes) == 1


def test_a_damaged_index_that_cannot_be_deleted_gives_way_to_memory(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_database: object) -> None:
        raise MlxbunError("It cannot be deleted.")

    place.write("One", "alpha")
    place.found("alpha")
    _drop_words(place.file)
    monkeypatch.setattr("core.database.Database.erase", refuse)
    assert place.found("alpha") == ["One"]
    assert place.notes[-1] == "It cannot be deleted. The search index is kept in memory."


def test_an_erased_index_holds_nothing_and_is_made_again(place: Place) -> None:
    place.write("One", "alpha secretword")
    place.found("alpha")
    place.index.erase()
    assert list(place.file.parent.iterdir()) == []
    assert place.found("secretword") == ["One"]


def test_what_is_not_searched_is_named(place: Place) -> None:
    place.write("One", "alpha")
    place.write("Huge", "alpha " * (LARGEST_PAGE // 6 + 1))
    place.path("Link").symlink_to("/etc/hostname")
    place.path("Folder").mkdir()
    os.mkfifo(place.path("Pipe"))
    (place.vault.root / "articles" / ".hidden.md").write_text("alpha")
    (place.vault.root / "articles" / "notes.txt").write_text("alpha")
    result = place.search("alpha")
    assert [summary.article for summary in result.summaries] == ["One"]
    named = [reason.split(" ")[0] for reason in result.left_out]
    assert named == [f"articles/{name}.md" for name in ("Folder", "Huge", "Link", "Pipe")]
    assert place.search("alpha").left_out == result.left_out
    place.write("Huge", "alpha")
    assert "Huge" in place.found("alpha")


def test_bytes_that_are_not_text_hide_nothing(place: Place) -> None:
    place.path("Odd").write_bytes(b"alpha \xff\xfe\x00 beta\r\ngamma\x0bdelta")
    (place.vault.root / "articles" / os.fsdecode(b"\xff.md")).write_text("alpha")
    assert place.found("beta") == place.found("alpha") == ["Odd"]
    assert place.search("gamma").hits[0].line == 2


def test_no_vault_finds_nothing(tmp_path: Path) -> None:
    index = SearchIndex(tmp_path / "search.db")
    assert index.search(Vault(tmp_path / "none"), "alpha").summaries == ()


def test_an_index_that_cannot_be_deleted_is_an_error(place: Place) -> None:
    place.file.parent.mkdir()
    place.file.mkdir()
    with pytest.raises(MlxbunError):
        place.index.erase()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40))
def test_no_query_is_syntax(place: Place, query: str) -> None:
    place.write("One", f"# One\n\n{query}\n")
    result = place.search(query)
    assert len(result.summaries) <= 1
    assert all(summary.occurrences >= 1 for summary in result.summaries)
