"""What a user calls a repository: `org/name`, or `org/name@revision`. Pure text.

Refused here, before any network and any disk: whatever the Hub would not accept, and whatever
could lead out of the cache's folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.errors import UsageProblem
from core.registry.names import plain_name

MAIN = "main"
COMMIT = re.compile(r"[0-9a-f]{40}")

# Source: huggingface_hub's `validate_repo_id`, and git's check-ref-format for the revision.
_REPO_ID = re.compile(r"(?:\b[\w\-.]{1,96}\b/)?\b[\w\-.]{1,96}\b", re.ASCII)
_REVISION = re.compile(r"\w[\w.\-+/#=@]{0,199}", re.ASCII)
_HINT = "Name it as on the Hub: org/name, or org/name@revision."


@dataclass(frozen=True, kw_only=True)
class RepoName:
    """A repository at a revision."""

    repo_id: str
    """`org/name`, or a bare `name`."""
    revision: str = MAIN
    """A branch, a tag, or a commit."""

    @property
    def is_commit(self) -> bool:
        """Whether the revision is a whole commit hash, which stands for the same files for ever."""
        return COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return self.repo_id if self.revision == MAIN else f"{self.repo_id}@{self.revision}"


def parse_name(text: str) -> RepoName:
    """Return the repository that a text names.

    Raises:
        UsageProblem: it names none.
    """
    repo_id, at, revision = plain_name(text).partition("@")
    _check_repo_id(repo_id, text)
    if at and not _is_revision(revision):
        raise UsageProblem(
            f"{_shown(revision)} is no revision.",
            hint="A branch, a tag or a commit stands behind the @: org/name@main.",
        )
    return RepoName(repo_id=repo_id, revision=revision if at else MAIN)


def _check_repo_id(repo_id: str, text: str) -> None:
    good = _REPO_ID.fullmatch(repo_id) and len(repo_id) <= 200
    if good and not any(bad in repo_id for bad in ("--", "..")) and not repo_id.endswith(".git"):
        return
    parts = repo_id.split("/")
    if len(parts) == 3 and all(_REPO_ID.fullmatch(part) for part in parts):
        raise UsageProblem(
            f"{_shown(text)} is no repository.",
            hint=f"One file of it: `mlxbun download {'/'.join(parts[:2])} --include {parts[2]}`.",
        )
    raise UsageProblem(f"{_shown(text)} is no repository.", hint=_HINT)


def _is_revision(text: str) -> bool:
    parts = text.split("/")
    return (
        _REVISION.fullmatch(text) is not None
        and ".." not in text
        and all(part and part[0] != "." and not part.endswith((".lock", ".")) for part in parts)
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
