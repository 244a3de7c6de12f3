"""Where something is uploaded to: a repository, and a branch of it. Pure text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from core.download.names import MAIN, parse_name
from core.errors import UsageProblem
from core.registry.files import printable
from core.registry.names import repository_name

RepoType = Literal["model", "dataset"]

# Source: huggingface_hub's `validate_repo_id`.
_PART = re.compile(r"[A-Za-z0-9_](?:[\w.\-]{0,94}[A-Za-z0-9_])?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A branch of a repository."""

    repo_id: str
    """`org/name`."""
    branch: str = MAIN
    """Made when it is missing."""

    @property
    def namespace(self) -> str:
        """The account or organization."""
        return self.repo_id.partition("/")[0]

    def __str__(self) -> str:
        return self.repo_id if self.branch == MAIN else f"{self.repo_id}@{self.branch}"


def parse_target(repo_id: str, branch: str | None = None) -> Target:
    """Return where to upload to.

    Raises:
        UsageProblem: that is no repository, or no branch.
    """
    repo_id = repository_name(repo_id)
    parts = repo_id.split("/")
    if len(parts) != 2 or not all(map(_is_part, parts)):
        raise UsageProblem(
            f"{printable(repo_id)!r} is no repository to upload to.",
            hint="Name it as on the Hub: --to ORG/NAME, with your account or an organization as"
            " ORG, and letters, digits, `-`, `_` and `.` in NAME.",
        )
    if branch is None:
        return Target(repo_id=repo_id)
    try:
        name = parse_name(f"{repo_id}@{branch}")
    except UsageProblem as problem:
        raise UsageProblem(problem.message, hint="Name a branch: --revision BRANCH.") from None
    if name.is_commit:
        raise UsageProblem(
            f"{branch} is a commit, and nothing can be added to one.",
            hint="Name a branch: --revision BRANCH; it is made when it is missing.",
        )
    return Target(repo_id=repo_id, branch=branch)


def _is_part(text: str) -> bool:
    return (
        _PART.fullmatch(text) is not None
        and not any(bad in text for bad in ("--", ".."))
        and not text.endswith((".git", ".ipynb"))
    )
