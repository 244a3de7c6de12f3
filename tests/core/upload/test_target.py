"""Where to upload to, as people write it."""

from __future__ import annotations

import pytest

from core.errors import UsageProblem
from core.upload.target import parse_target


@pytest.mark.parametrize("name", ["org/name", "Org-1/My_model.v2-4bit", "a/b", "_/_x"])
def test_repositories(name: str) -> None:
    target = parse_target(name)
    assert (target.repo_id, target.branch, str(target)) == (name, "main", name)
    assert target.namespace == name.partition("/")[0]


@pytest.mark.parametrize(
    "name",
    ["", "name", "a/b/c", "/b", "a/", "a b/c", "org/na--me", "org/a..b", "../x", "org/x.git",
     "org/x.ipynb", "-org/x", "org/x-", "org/" + "x" * 97, "org/ünï", "org/name@main", "org\n/x"],
)  # fmt: skip
def test_what_is_no_repository(name: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_target(name)
    assert "\n" not in caught.value.message
    assert "--to ORG/NAME" in str(caught.value.hint)


def test_branches() -> None:
    assert str(parse_target("org/name", "main")) == "org/name"
    assert str(parse_target("org/name", "v1/try")) == "org/name@v1/try"
    for bad in ("..", "a..b", "x.lock", "", "a b"):
        with pytest.raises(UsageProblem, match="is no revision") as caught:
            parse_target("org/name", bad)
        assert "--revision BRANCH" in str(caught.value.hint)
    with pytest.raises(UsageProblem, match="is a commit"):
        parse_target("org/name", "0123456789" * 4)
