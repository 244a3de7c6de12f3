"""Names are refused or taken apart before anything is asked of a network or a disk."""

from __future__ import annotations

import pytest
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st

from core.download.names import RepoName, parse_name
from core.errors import UsageProblem

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "repo_id", "revision"),
    [
        ("org/name", "org/name", "main"),
        ("gpt2", "gpt2", "main"),
        ("Org-1/na.me_2@v1.0", "Org-1/na.me_2", "v1.0"),
        ("org/name@refs/pr/1", "org/name", "refs/pr/1"),
        (f"org/name@{COMMIT}", "org/name", COMMIT),
        ("org/name/", "org/name", "main"),
        ("https://huggingface.co/org/name", "org/name", "main"),
        ("https://huggingface.co/org/name/tree/v1.0", "org/name", "v1.0"),
    ],
)
def test_a_name_and_its_revision(text: str, repo_id: str, revision: str) -> None:
    assert parse_name(text) == RepoName(repo_id=repo_id, revision=revision)


def test_only_a_whole_hash_is_a_commit() -> None:
    assert parse_name(f"org/name@{COMMIT}").is_commit
    assert not parse_name(f"org/name@{COMMIT[:12]}").is_commit
    assert str(parse_name("org/name@main")) == "org/name"
    assert str(parse_name("org/name@v1")) == "org/name@v1"


@pytest.mark.parametrize(
    "text",
    ["", " ", "../x", "../../etc", "a/b/c", "/etc", "/a", "a b/c", "a/b c", "org//name",
     "org/..", "./x", "org/na--me", "org/name.git", "-a/b", "a/b.", "ä/b", "a/b\n", "a\\b",
     "x" * 99, "https://example.com/org/name", "a/b\x1b[2J", "a/b\0"],
)  # fmt: skip
def test_what_is_no_repository_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_name(text)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize(
    "revision",
    ["", " ", "..", "a/../b", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a b", "a~1", "-x", "a.",
     "x" * 300, "a\n"],
)  # fmt: skip
def test_what_is_no_revision_is_refused(revision: str) -> None:
    with pytest.raises(UsageProblem):
        parse_name(f"org/name@{revision}")


def test_a_file_is_asked_for_otherwise() -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_name("org/name/config.json")
    assert "mlxbun download org/name --include config.json" in str(caught.value.hint)


@given(st.text(alphabet="ab/.-_@ \\\0\n", max_size=12))
def test_what_passes_here_passes_at_the_hub_and_stays_in_its_folder(text: str) -> None:
    try:
        name = parse_name(text)
    except UsageProblem:
        return
    try:
        validate_repo_id(name.repo_id)
    except HFValidationError as problem:
        pytest.fail(str(problem))
    assert all(part not in ("", ".", "..") for part in name.revision.split("/"))
