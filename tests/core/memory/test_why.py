"""Where a sentence comes from: found by its words, explained by citation, turn, run and commit."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.errors import NotFound, UsageProblem
from core.memory.git import Git
from core.memory.store import ConversationStore
from core.memory.turns import SourceConversation, Turn
from core.memory.vault import Vault
from core.memory.why import Reasons, why
from core.memory.writer import Change, editing
from tests.core.memory.repositories import new_vault, sha

RUN = "20260301-120000-aaaa"
_ADA = """# Ada Lovelace

Ada lives in [[Lyon]] (until 2026-03-05).[^1] She sings *loudly*. She paints.[^2][^gone]

## References

[^1]: chatgpt:1#m1 (2026-03-01) [Ada Lovelace · home city]: I moved to Lyon
[^2]: See her web site.
"""


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    root = new_vault(tmp_path / "v")
    with editing(root) as edit:
        edit.commit(
            [
                Change(path="articles/Ada.md", before=None, after=_ADA),
                Change(path="articles/Bob.md", before=None, after="# Bob\n\nBob sings. Tokyo.\n"),
                Change(path="articles/東京.md", before=None, after="東京は大きい。空が青い。\n"),
            ],
            "Add two articles",
            run=RUN,
            sources=("chatgpt:1",),
        )
    (root / "articles" / "Bob.md").write_text("# Bob\n\nBob sings. Tokyo. Bob left Lyon.\n")
    return Vault(root)


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    made = ConversationStore(
        tmp_path / "store", key=b"k" * 32, marks=tmp_path / "forgotten", on_note=lambda _note: None
    )
    turn = Turn(
        id="m1",
        role="user",
        text="Hi! I moved\nto Lyon last week.",
        at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    conversation = SourceConversation(
        id="chatgpt:1", kind="chatgpt", title="Moving", turns=(turn,), digest="d"
    )
    made.add(conversation, origin="export.json")
    return made


def _ask(vault: Vault, text: str, store: ConversationStore | None = None) -> Reasons:
    return why(text, vault=vault, git=Git(vault.root), store=store)


def test_a_sentence_is_explained(vault: Vault, store: ConversationStore) -> None:
    (reason,) = _ask(vault, "Ada lives in Lyon.", store).found
    assert (reason.article, reason.path, reason.line) == ("Ada", "articles/Ada.md", 3)
    assert reason.sentence == "Ada lives in [[Lyon]] (until 2026-03-05)."
    assert reason.match == "normalized"
    (cited,) = reason.cited
    assert cited.citation is not None
    assert (cited.citation.date, cited.citation.quote) == ("2026-03-01", "I moved to Lyon")
    assert (cited.turn, cited.role, cited.title) == (
        "Hi! I moved\nto Lyon last week.", "user", "Moving"
    )  # fmt: skip
    assert cited.quoted
    assert reason.origin is not None
    assert reason.origin.commit is not None
    assert reason.origin.commit.run == RUN
    assert reason.origin.commit.sources == ("chatgpt:1",)


@pytest.mark.parametrize(
    ("text", "match", "articles"),
    [
        ("Ada lives in [[Lyon]] (until 2026-03-05).", "exact", ["Ada"]),
        ("  she SINGS loudly", "normalized", ["Ada"]),
        ('"Bob sings!"', "normalized", ["Bob"]),
        ("lives in Lyon", "part", ["Ada"]),
        ("sings", "part", ["Ada", "Bob"]),
        ("Lyon Ada", "words", ["Ada"]),
        ("Lyon", "part", ["Ada", "Bob"]),
        ("空が青い", "normalized", ["東京"]),
        ("大きい", "part", ["東京"]),
        ("tokyo", "normalized", ["Bob"]),
    ],
)
def test_the_strictest_way_that_finds_something(
    vault: Vault, text: str, match: str, articles: list[str]
) -> None:
    reasons = _ask(vault, text)
    assert [each.article for each in reasons.found] == articles
    assert {each.match for each in reasons.found} == {match}
    assert reasons.more == 0


def test_what_is_not_cited_and_not_stored_is_said(vault: Vault, store: ConversationStore) -> None:
    (sings,) = _ask(vault, "She sings loudly.", store).found
    assert sings.cited == ()
    (paints,) = _ask(vault, "She paints.", store).found
    assert [(each.label, each.text, each.citation) for each in paints.cited] == [
        ("2", "See her web site.", None), ("gone", "", None)
    ]  # fmt: skip
    store.remove(["chatgpt:1"])
    (lives,) = _ask(vault, "Ada lives in Lyon.", store).found
    assert (lives.cited[0].turn, lives.cited[0].quoted) == (None, None)
    assert lives.cited[0].citation is not None


def test_a_quote_that_its_turn_lacks_is_said(vault: Vault, store: ConversationStore) -> None:
    turn = Turn(id="m1", role="user", text="Something else.")
    other = SourceConversation(id="chatgpt:1", kind="chatgpt", title="", turns=(turn,), digest="e")
    store.add(other, origin="export.json")
    (lives,) = _ask(vault, "Ada lives in Lyon.", store).found
    assert lives.cited[0].quoted is False


def test_what_is_not_committed_has_no_commit(vault: Vault) -> None:
    (reason,) = _ask(vault, "Bob left Lyon.").found
    assert reason.origin is not None
    assert reason.origin.commit is None
    (bare,) = why("Bob left Lyon.", vault=vault, git=None).found
    assert bare.origin is None


def test_an_older_sentence_keeps_its_run(vault: Vault) -> None:
    with editing(vault.root) as edit:
        after = _ADA.replace("She sings *loudly*.", "She sings *loudly*. She flies.")
        change = Change(path="articles/Ada.md", before=sha(_ADA), after=after)
        edit.commit([change], "Add", run="20260302-120000-bbbb")
    for text, run in (("She sings loudly.", RUN), ("She flies.", "20260302-120000-bbbb")):
        (reason,) = _ask(vault, text).found
        assert reason.origin is not None
        assert reason.origin.commit is not None
        assert reason.origin.commit.run == run


def test_many_answers_are_counted(vault: Vault) -> None:
    text = "# X\n\n" + "".join(f"Same words {number}.\n\n" for number in range(30))
    (vault.root / "articles" / "X.md").write_text(text)
    reasons = _ask(vault, "same words")
    assert (len(reasons.found), reasons.more) == (20, 10)


@pytest.mark.parametrize("text", ["", " ", "...", "[^1]", "x" * 2001])
def test_a_question_has_words(vault: Vault, text: str) -> None:
    with pytest.raises(UsageProblem):
        _ask(vault, text)


def test_nothing_found_is_said(vault: Vault) -> None:
    with pytest.raises(NotFound, match="No sentence"):
        _ask(vault, "Ada lives in Paris.")
