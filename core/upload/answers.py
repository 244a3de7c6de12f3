"""What the Hub's refusals mean to somebody who uploads, in our words and where useful in its own.

The token is in none of them: whatever the Hub says is searched for it.

Source: huggingface_hub's `hf_raise_for_status`, which reads the same headers, and threads about
them: 403 with "You don't have the rights to create a model under the namespace", "Private
repository storage limit reached", "Your storage patterns tripped our internal systems".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError, NotFound, UploadFailed
from core.registry.files import printable

if TYPE_CHECKING:
    from pathlib import Path

    from core.hf_token import HubToken
    from core.upload.target import RepoType, Target

_KEPT = "What has been sent is not sent again."
_STORAGE = ("storage", "quota", "exceeded")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a question was about."""

    target: Target
    """Where something is uploaded to."""
    repo_type: RepoType
    """The type of the repository."""
    endpoint: str
    """The Hub's address."""
    token: HubToken
    """What was shown to it."""

    @property
    def page(self) -> str:
        """Where a person finds the repository."""
        prefix = "datasets/" if self.repo_type == "dataset" else ""
        return f"{self.endpoint}/{prefix}{self.target.repo_id}"

    @property
    def tokens_page(self) -> str:
        """Where a person makes tokens."""
        return f"{self.endpoint}/settings/tokens"


@dataclass(frozen=True, kw_only=True)
class Account:
    """Whom a token belongs to, as the Hub tells."""

    name: str
    """The user's name."""
    organizations: tuple[str, ...]
    """Those that the user is in."""
    role: str | None
    """What the token may do: `read`, `write`, `fineGrained`; None: not told."""


def refusal(response: Any, asked: Asked) -> MlxbunError:
    """Return what an answer with an error status means.

    Args:
        response: the Hub's, with `status_code`, `headers` and a body that has been read.
        asked: what it answers.
    """
    status = response.status_code
    code = response.headers.get("X-Error-Code", "")
    words = words_of(response, asked.token)
    if status == 401:
        return bad_token(asked)
    if code == "RepoNotFound" or status == 404:
        return _gone(asked, words)
    if lacks_room(status, words):
        return _no_room(asked, words)
    if status == 403:
        return _forbidden(asked, words)
    if status == 400:
        return _rejected(asked, words)
    return UploadFailed(
        f"The Hub answers with status {status} for {asked.target}{_quoted(words)}.",
        hint=f"See whether {asked.page} opens in a browser, and try again. {_KEPT}",
    )


def lacks_room(status: int, words: str) -> bool:
    """Return whether an answer means that the account's storage is full, or a file too large."""
    said = any(word in words.lower() for word in _STORAGE)
    return status in (402, 413, 507) or (status == 403 and said)


def words_of(response: Any, token: HubToken) -> str:
    """Return what the Hub says itself, on one line and without the token; empty: nothing."""
    said = response.headers.get("X-Error-Message") or _error_in(response)
    return clean(said, token)


def clean(text: str, token: HubToken) -> str:
    """Return a text from outside as it can be shown: one line, cut, and without the token."""
    line = " ".join(text.replace(token.value, "(the token)").split())
    return printable(line, 300).rstrip(".")


def no_token(endpoint: str, file: Path) -> MlxbunError:
    """Return what to say when there is no token; `file` is our own place for one."""
    return UploadFailed(
        "There is no Hugging Face token on this machine, and nothing is uploaded without one.",
        hint=f"Make one that may write at {endpoint}/settings/tokens, then set HF_TOKEN, log in"
        f" with `hf auth login`, or put it into {file}.",
    )


def bad_token(asked: Asked) -> MlxbunError:
    """Return what to say when the Hub does not know the token."""
    return UploadFailed(
        f"The Hub does not accept the token in {asked.token.source}.",
        hint=f"Make a new one that may write at {asked.tokens_page}.",
    )


def no_namespace(asked: Asked) -> MlxbunError:
    """Return what to say when there is no such account."""
    return NotFound(
        f"The Hub has no user or organization {asked.target.namespace!r}.",
        hint="Check the spelling, capital letters too: --to ORG/NAME.",
    )


def may_not_create(asked: Asked, account: Account | None, words: str) -> MlxbunError:
    """Return what to say when a repository cannot be made.

    Args:
        asked: which.
        account: whose token it is; None: that is not known.
        words: what the Hub says itself.
    """
    source, namespace = asked.token.source, asked.target.namespace
    if account is not None and account.role == "read":
        return UploadFailed(
            f"The token in {source} may only read.",
            hint=f"Make one that may write at {asked.tokens_page}.",
        )
    if account is not None and namespace not in (account.name, *account.organizations):
        return UploadFailed(
            f"The token in {source} belongs to {printable(account.name)}, who is not in"
            f" {namespace}.",
            hint=f"Upload to {printable(account.name)}/{asked.target.repo_id.partition('/')[2]},"
            f" or have {namespace} take you in.",
        )
    return UploadFailed(
        f"The token in {source} may not make {asked.target.repo_id}{_quoted(words)}.",
        hint=f"Check what it may write at {asked.tokens_page}, and your role in {namespace}.",
    )


def _gone(asked: Asked, words: str) -> MlxbunError:
    return NotFound(
        f"The Hub has no {asked.repo_type} {asked.target} any more{_quoted(words)}.",
        hint="It was removed meanwhile, or the token may not see it: give the same command again.",
    )


def _no_room(asked: Asked, words: str) -> MlxbunError:
    return UploadFailed(
        f"The Hub has no room for {asked.target}{_quoted(words)}.",
        hint=f"Look at {asked.endpoint}/settings/billing, or free some of the account's storage."
        f" {_KEPT}",
    )


def _forbidden(asked: Asked, words: str) -> MlxbunError:
    return UploadFailed(
        f"The token in {asked.token.source} may not write to {asked.target}{_quoted(words)}.",
        hint=f"Make one that may at {asked.tokens_page}, or ask its owner for write access.",
    )


def _rejected(asked: Asked, words: str) -> MlxbunError:
    return UploadFailed(
        f"The Hub rejects what was sent to {asked.target}{_quoted(words)}.",
        hint=f"Repair what it names, and give the same command again. {_KEPT}",
    )


def _quoted(words: str) -> str:
    return f' ("{words}")' if words else ""


def _error_in(response: Any) -> str:
    """Return the error in a body of JSON, or nothing."""
    try:
        content = response.json()
    except (ValueError, RecursionError):
        return ""
    error = content.get("error") if isinstance(content, dict) else None
    return error if isinstance(error, str) else ""
