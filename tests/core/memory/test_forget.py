"""Forgetting: what is found is shown, what is shown goes, and nothing of it comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NotFound, UsageProblem, VaultChanged
from core.memory.article import parse
from core.memory.cleaning import Needle, clean_article, clean_talk, unlink
from core.memory.echoes import is_forgotten
from core.memory.forget import forget, plan_forget, remains_elsewhere
from core.memory.ledger import LEDGER, LedgerEntry, appended
from core.memory.redact.redactor import redactor
from core.memory.talk import Entry, with_entries
from tests.core.memory.forgetting import ADA, ADA_TEXT, TRAVEL, all_bytes, git, make, write
from tests.core.memory.test_store import conversation

# Pages


def test_a_sentence_goes_with_its_footnote() -> None:
    cleaned = clean_article(ADA_TEXT, Needle("lyon"))
    assert "Lyon" not in cleaned.text
    assert "She likes tea.[^2]" in cleaned.text
    assert "[^1]" not in cleaned.text
    assert cleaned.removed == ("Ada lives in Lyon.", "home: Lyon")
    assert [each.message for each in cleaned.citations] == ["m1"]
    assert parse(cleaned.text).title == "Ada Lovelace"


def test_the_infobox_does_not_keep_what_a_removed_sentence_says() -> None:
    text = (
        "# User\n\n```info\nkind: person\nhome city: [[Kraków]]\nteam: Kraków Optics\n```\n\n"
        "The user moved to Kraków.[^1] The user likes tea.[^2]\n\n## References\n\n"
        "[^1]: chatgpt:1#m1 (2025-04-02) [User · home city]: I moved to Kraków\n"
        "[^2]: chatgpt:1#m2 (2025-04-02) [User · likes]: I like tea\n"
    )
    cleaned = clean_article(text, Needle("The user moved to Kraków."))
    assert "home city" not in cleaned.text
    assert "team: Kraków Optics" in cleaned.text  # another property
    assert "The user likes tea." in cleaned.text
    assert cleaned.removed == ("The user moved to Kraków.", "home city: [[Kraków]]")


def test_a_sentence_that_cites_the_words_goes_too() -> None:
    cleaned = clean_article(ADA_TEXT, Needle("write programs"))
    assert "tea" not in cleaned.text
    assert "program" not in cleaned.text


def test_where_a_sentence_cannot_go_the_words_do() -> None:
    text = "# Lyon\n\nFine.\n\n## Life in LYON\n\n```\nlyon = 1\n```\n"
    cleaned = clean_article(text, Needle("Lyon"))
    assert cleaned.text == "# Lyon\n\nFine.\n\n## Life in […]\n\n```\n[…] = 1\n```\n"


def test_only_whole_words_match() -> None:
    text = "# X\n\nThe Lyonnais ate. Chat is a word; cat is not.\n"
    assert clean_article(text, Needle("Lyon")).text == text
    assert clean_article(text, Needle("at is")).text == text


@pytest.mark.parametrize("words", ["東京", "STRASSE", "ﬁnal"])
def test_other_scripts_and_forms_of_letters(words: str) -> None:
    text = f"# X\n\n昨日東京に行った。 She lives in Hauptstraße. The final one.\n\n## {words}\n"
    cleaned = clean_article(text.replace("Hauptstraße", "der Straße"), Needle(words))
    assert not Needle(words).is_in(cleaned.text)


def test_an_entry_of_a_talk_page_goes_whole() -> None:
    entries = [
        Entry(heading="Refused (patch)", reason="Why.", text="Ada lives in Lyon."),
        Entry(heading="Refused (patch)", reason="Why.", text="Ada likes tea."),
    ]
    page = with_entries("", "Ada", entries) + "\nMy note on Lyon.\n"
    cleaned = clean_talk(page, Needle("Lyon"))
    assert "Lyon" not in cleaned.text
    assert cleaned.text.count("## Refused") == 1
    assert "Ada likes tea." in cleaned.text
    assert "My note on […]." in cleaned.text


_PIECES = st.sampled_from(
    ["Ada lives in Lyon.", "[^1]", "\n", "\n\n", "## ", "# ", "Lyon", "[[Lyon|x]]", "```\n", "- ",
     "[^1]: session:a#m1 (undated): in Lyon\n", "```info\nhome: Lyon\n```\n", " ", "Fine. ", "L",
     "<!-- mlxbun 0123456789ab -->\n", "> ", "|", "ly on"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=14))
def test_cleaning_is_complete_and_happens_once(pieces: list[str]) -> None:
    text = "# T\n\n" + "".join(pieces)
    for clean in (clean_article, clean_talk):
        once = clean(text, Needle("lyon")).text
        assert not Needle("lyon").is_in(once)
        assert clean(once, Needle("lyon")).text == once


def test_links_to_an_article_become_words() -> None:
    text = "A [[Ada Lovelace]], [[ada_lovelace|her]] and [[Adam]].\n\n- [[Ada Lovelace]]\n- [[X]]\n"
    assert unlink(text, "Ada Lovelace") == "A Ada Lovelace, her and [[Adam]].\n\n- [[X]]\n"


@pytest.mark.parametrize("text", ["", " ", "!?", "x" * 5000])
def test_a_text_needs_words(text: str) -> None:
    with pytest.raises(UsageProblem):
        Needle(text)


def test_too_many_sentences_are_refused() -> None:
    with pytest.raises(UsageProblem, match="600 sentences"):
        clean_article("# X\n\n" + "I like tea. " * 600, Needle("tea"))


# Vaults


def test_nothing_is_done_before_it_was_shown(tmp_path: Path) -> None:
    memory = make(tmp_path)
    before = git(memory.root, "rev-parse", "HEAD")
    plan = plan_forget(memory, "Lyon", source=True)
    assert git(memory.root, "rev-parse", "HEAD") == before
    assert [cut.path for cut in plan.files] == [ADA, TRAVEL]
    assert plan.files[0].removed == ("Ada lives in Lyon.", "home: Lyon")
    assert [(turn.source, turn.message) for turn in plan.turns] == [("session:a", "m1")]
    assert plan.as_json()["files"][0]["deleted"] is False


def test_a_text_goes_in_one_commit(tmp_path: Path) -> None:
    memory = make(tmp_path)
    commit = forget(memory, plan_forget(memory, "Lyon"))
    assert git(memory.root, "rev-parse", "HEAD").strip() == commit
    assert git(memory.root, "log", "--format=%s%n%an", "-1") == "Forget a text\nmlxbun\n"
    assert "Lyon" not in (memory.root / ADA).read_text()
    assert git(memory.root, "status", "--porcelain") == ""
    assert memory.store.get("session:a") is not None


def test_an_article_goes_with_the_links_to_it(tmp_path: Path) -> None:
    memory = make(tmp_path)
    write(memory.root, {"Talk/Ada Lovelace.md": "# Talk: Ada Lovelace\n"})
    forget(memory, plan_forget(memory, "ada lovelace"))
    assert not (memory.root / ADA).exists()
    assert not (memory.root / "Talk/Ada Lovelace.md").exists()
    text = (memory.root / TRAVEL).read_text()
    assert "The trip of Ada Lovelace was long." in text
    assert "- [[Trains]]" in text
    assert "[[Ada" not in text


def test_sources_forget_and_the_same_export_does_not_bring_it_back(tmp_path: Path) -> None:
    memory = make(tmp_path)
    memory.store.add(conversation("He said: Lyon is nice.", key="b"), origin="/b")
    forget(memory, plan_forget(memory, "Lyon", source=True))
    kept = memory.store.get("session:a")
    assert kept is not None
    assert [turn.text for turn in kept.turns] == ["I like tea, and I write programs."]
    assert memory.store.get("session:b") is None
    again = conversation("I moved to Lyon last week.", "I like tea, and I write programs.")
    assert memory.store.forgotten_turns(again) == {"m1"}
    assert is_forgotten("I moved to LYON last week!", memory.store)
    assert is_forgotten("Ada lives in Lyon.", memory.store)
    assert not is_forgotten("Ada lives in Paris.", memory.store)
    assert b"Lyon" not in all_bytes(memory.folder)


def test_what_was_synthesized_stays_so(tmp_path: Path) -> None:
    memory = make(tmp_path)
    (head,) = memory.store.conversations()
    memory.store.mark_synthesized([(head.id, head.digest)], run="r")
    forget(memory, plan_forget(memory, "Lyon", source=True))
    assert memory.store.unsynthesized() == ()


def test_lines_of_the_ledger_go_with_the_sources(tmp_path: Path) -> None:
    memory = make(tmp_path)
    entries = [
        LedgerEntry(fact=f"f{n}", article="Ada Lovelace", date=None, run="r", source="session:a",
                    message=f"m{n}")
        for n in (1, 2)
    ]  # fmt: skip
    write(memory.root, {LEDGER: appended("", entries)})
    forget(memory, plan_forget(memory, "Lyon"))
    assert '"f1"' in (memory.root / LEDGER).read_text()
    forget(memory, plan_forget(memory, "write programs", source=True))
    text = (memory.root / LEDGER).read_text()
    assert '"f1"' in text
    assert '"f2"' not in text


def test_the_index_forgets(tmp_path: Path) -> None:
    memory = make(tmp_path)
    assert memory.index.search(memory.vault, "Lyon").summaries
    forget(memory, plan_forget(memory, "Lyon", source=True))
    assert b"Lyon" not in all_bytes(memory.folder)
    hits = memory.index.search(memory.vault, "Lyon")
    assert not hits.summaries


def test_a_file_that_changed_meanwhile_is_planned_again(tmp_path: Path) -> None:
    memory = make(tmp_path)
    plan = plan_forget(memory, "Lyon")
    (memory.root / ADA).write_text(ADA_TEXT + "\nMine.\n")
    with pytest.raises(VaultChanged):
        forget(memory, plan)
    assert (memory.root / ADA).read_text() == ADA_TEXT + "\nMine.\n"


def test_nothing_found_is_an_error(tmp_path: Path) -> None:
    memory = make(tmp_path)
    with pytest.raises(NotFound, match="Zanzibar"):
        plan_forget(memory, "Zanzibar", source=True)


def test_a_secret_is_found_by_its_placeholder(tmp_path: Path) -> None:
    memory = make(tmp_path)
    stored = redactor(memory.vault).redact("Write to ada@example.org.")
    write(memory.root, {"articles/Mail.md": f"# Mail\n\n{stored} Daily.\n"})
    plan = plan_forget(memory, "ada@example.org")
    assert [cut.removed for cut in plan.files] == [(stored,)]
    with pytest.raises(NotFound):
        plan_forget(memory, "bob@example.org")


def test_what_remains_is_said(tmp_path: Path) -> None:
    memory = make(tmp_path, {"articles/Lyon.md": "# Lyon\n\nA city. Lyon is old.\n"})
    plan = plan_forget(memory, "is old")
    assert len(remains_elsewhere(plan, purged=False)) == 4
    assert len(remains_elsewhere(plan_forget(memory, "A city", source=True), purged=True)) == 2
    plan = plan_forget(memory, "old")
    assert plan.article is None
    assert plan.files[0].removed == ("Lyon is old.",)


def test_files_of_the_user_are_named_and_stay(tmp_path: Path) -> None:
    memory = make(tmp_path)
    write(memory.root, {"README.md": "Lyon\n", "articles/old/Trip.md": "# Lyon\n"})
    plan = plan_forget(memory, "Lyon")
    assert [line.split(" ")[0] for line in plan.remaining] == ["README.md", "articles/old/Trip.md"]


def test_hostile_pages_are_named_not_followed(tmp_path: Path) -> None:
    memory = make(tmp_path)
    (tmp_path / "secret.md").write_text("# Lyon\n")
    (memory.root / "articles" / "Link.md").symlink_to(tmp_path / "secret.md")
    (memory.root / "articles" / "Bytes.md").write_bytes(b"# Bytes\n\nLyon \xff\n")
    plan = plan_forget(memory, "Lyon")
    assert plan.remaining == ("articles/Bytes.md was not searched: it is not UTF-8.",)
    assert (tmp_path / "secret.md").read_text() == "# Lyon\n"
