"""What the Hub's refusals mean to a person: one table from its answers to our errors.

Source: huggingface_hub's `hf_raise_for_status`, which reads the same headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import DownloadFailed, MlxbunError, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.download.names import RepoName
    from core.hf_token import HubToken

_BAD_TOKEN = "Invalid credentials in Authorization header"
_LOGIN = "set HF_TOKEN, or log in with `hf auth login`"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a question was about."""

    name: RepoName
    """The repository."""
    endpoint: str
    """The Hub's address."""
    token: HubToken | None
    """What was sent along."""
    file: str | None = None
    """The file that was asked for; None: the repository itself."""

    @property
    def page(self) -> str:
        """Where a person finds the repository."""
        return f"{self.endpoint}/{self.name.repo_id}"


def refusal(status: int, headers: Mapping[str, str], asked: Asked) -> MlxbunError:
    """Return what an answer with an error status means.

    Args:
        status: 400 to 599.
        headers: of the answer; names in any case.
        asked: what it answers.
    """
    code, said = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
    told = {"RevisionNotFound": _no_revision, "EntryNotFound": _no_file, "GatedRepo": _gated}
    if code in told:
        return told[code](asked)
    if said == "Access to this resource is disabled." or status == 451:
        return _disabled(asked)
    if status == 401 and asked.token is not None and (said == _BAD_TOKEN or code == ""):
        return _bad_token(asked, asked.token)
    if code == "RepoNotFound" or status in (401, 404):
        return _no_repository(asked)
    return _forbidden(asked) if status == 403 else _unknown(status, asked)


def _no_revision(asked: Asked) -> MlxbunError:
    return NotFound(
        f"{asked.name.repo_id} has no revision {asked.name.revision!r}.",
        hint=f"Its branches, tags and commits are listed at {asked.page}/commits/main.",
    )


def _no_file(asked: Asked) -> MlxbunError:
    return NotFound(
        f"{asked.name} has no file {asked.file!r} any more.",
        hint="The repository may have changed a moment ago: try again.",
    )


def _gated(asked: Asked) -> MlxbunError:
    if asked.token is None:
        return DownloadFailed(
            f"{asked.name.repo_id} is gated, and there is no token to show.",
            hint=f"Accept its terms at {asked.page}, then {_LOGIN}.",
        )
    return DownloadFailed(
        f"{asked.name.repo_id} is gated, and the token in {asked.token.source} has no access.",
        hint=f"Accept its terms at {asked.page} with the token's account, and try again.",
    )


def _bad_token(asked: Asked, token: HubToken) -> MlxbunError:
    return DownloadFailed(
        f"The Hub does not accept the token in {token.source}.",
        hint=f"Renew it at {asked.endpoint}/settings/tokens, or remove it: public repositories"
        " need none.",
    )


def _no_repository(asked: Asked) -> MlxbunError:
    hint = (
        f"Check the spelling. If it is private, {_LOGIN}."
        if asked.token is None
        else f"Check the spelling, and whether the token in {asked.token.source} may see it."
    )
    return NotFound(f"The Hub has no model {asked.name.repo_id}, or it is private.", hint=hint)


def _forbidden(asked: Asked) -> MlxbunError:
    hint = (
        f"If you may read it, {_LOGIN}."
        if asked.token is None
        else f"Check what the token in {asked.token.source} may read."
    )
    return DownloadFailed(f"The Hub refuses access to {asked.name.repo_id}.", hint=hint)


def _disabled(asked: Asked) -> MlxbunError:
    return DownloadFailed(
        f"{asked.name.repo_id} is disabled on the Hub.", hint=f"See {asked.page}."
    )


def _unknown(status: int, asked: Asked) -> MlxbunError:
    return DownloadFailed(
        f"The Hub answers with status {status} for {asked.file or asked.name}.",
        hint=f"See whether {asked.page} opens in a browser, and try again.",
    )
