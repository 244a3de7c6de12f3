"""The Hub's side of an upload: what is asked of it through huggingface_hub, in our errors.

Requests go through `core.upload.carrier`, which must be at work.
"""

from __future__ import annotations

import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, BinaryIO, cast

from huggingface_hub import CommitOperationAdd, HfApi, get_session, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import hf_raise_for_status

from core.download.names import MAIN
from core.errors import MlxbunError, UploadFailed, UsageProblem
from core.upload.answers import (
    Account,
    Asked,
    bad_token,
    clean,
    lacks_room,
    may_not_create,
    no_namespace,
    refusal,
    words_of,
)
from core.upload.card import README
from core.upload.carrier import Stale
from core.upload.ending import Cancelled
from core.upload.reading import WatchedFile, changed, unread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.upload.ending import Ending
    from core.upload.gather import LocalFile
    from core.upload.meter import Meter

_BAD_BLOCK = "Invalid metadata in README.md"  # the library's words


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a repository was found to be."""

    head: str | None
    """The commit of the branch; None: it has none yet."""
    private: bool
    """Whether it is private."""
    made_repository: bool
    """Whether it was made for this upload."""
    made_branch: bool
    """Whether its branch was."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What has become of files."""

    sha: str
    """The commit that holds them; the one before, if it held them already."""
    url: str
    """Where a person sees it."""


class Hub:
    """One repository and a branch of it."""

    def __init__(self, asked: Asked, *, ending: Ending, meter: Meter, connections: int) -> None:
        """Prepare; nothing is asked yet.

        Args:
            asked: which repository, and with which token.
            ending: ends what is sent.
            meter: hears of it.
            connections: files that are on their way at once.
        """
        self._asked = asked
        self._target = asked.target
        self._ending = ending
        self._meter = meter
        self._connections = connections
        self._api = HfApi(
            endpoint=asked.endpoint,
            token=asked.token.value,
            library_name="mlxbun",
            library_version=version("mlxbun"),
        )

    def ensure(self, *, private: bool) -> Standing:
        """Return how the repository and its branch stand, once both are there.

        Raises:
            UsageProblem: it is to be private, and is there and is not.
            NotFound: there is no such account or organization.
            UploadFailed: the token may not.
        """
        with self._told():
            before = self._private()
            if before is None:
                self._create(private=private)
            is_private = self._private() if before is None else before
            if private and not is_private:
                raise self._is_public(made=before is None)
            head = self._head()
            # A repository without any commit has no main: the first commit makes it.
            made_branch = head is None and self._target.branch != MAIN
            if made_branch:
                self._make_branch()
                head = self._head()
            return Standing(
                head=head,
                private=bool(is_private),
                made_repository=before is None,
                made_branch=made_branch,
            )

    def read_card(self) -> str | None:
        """Return the card that the branch has, or None when it has none."""
        url = hf_hub_url(
            self._target.repo_id,
            README,
            repo_type=self._asked.repo_type,
            revision=self._target.branch,
            endpoint=self._asked.endpoint,
        )
        with self._told():
            response = get_session().get(
                url, headers=build_hf_headers(token=self._asked.token.value)
            )
            try:
                hf_raise_for_status(response)
            except (EntryNotFoundError, RevisionNotFoundError):
                return None
            return response.content.decode("utf-8", "replace")

    def commit(
        self,
        files: Sequence[LocalFile],
        hashes: Mapping[str, str],
        *,
        card: str | None,
        message: str,
    ) -> Commit:
        """Send what the branch lacks, and commit it. Files that it has are no part of the commit.

        Args:
            files: what it must hold afterwards.
            hashes: their SHA-256 by name.
            card: what README.md must be; None: no concern of ours.
            message: the commit's.

        Raises:
            Stale: the files have to be offered again.
            UploadFailed: the Hub does not take them, or one of them changes.
            Cancelled: the end has come.
        """
        with self._told():
            operations = [self._addition(file, hashes[file.name]) for file in files]
            if card is not None:
                operations.append(
                    CommitOperationAdd(path_in_repo=README, path_or_fileobj=card.encode("utf-8"))
                )
            self._send_once(operations)
            done = self._api.create_commit(
                self._target.repo_id,
                operations,
                commit_message=message,
                repo_type=self._asked.repo_type,
                revision=self._target.branch,
                num_threads=self._connections,
            )
            return Commit(sha=done.oid, url=str(done.commit_url))

    def _send_once(self, operations: Sequence[CommitOperationAdd]) -> None:
        """Send contents that several files have, each once: the library sends one for each file."""
        counts = Counter(operation.upload_info.sha256 for operation in operations)
        shared = {one.upload_info.sha256: one for one in operations}
        several = [one for sha256, one in shared.items() if counts[sha256] > 1]
        if several:
            self._api.preupload_lfs_files(
                self._target.repo_id,
                several,
                repo_type=self._asked.repo_type,
                revision=self._target.branch,
                num_threads=self._connections,
                free_memory=False,
            )

    def _private(self) -> bool | None:
        """Return whether the repository is private; None: there is none."""
        try:
            info = self._api.repo_info(self._target.repo_id, repo_type=self._asked.repo_type)
        except RepositoryNotFoundError as problem:
            if problem.response.status_code == 401:
                raise bad_token(self._asked) from None
            return None
        return bool(info.private)

    def _is_public(self, *, made: bool) -> MlxbunError:
        if made:  # by a hub that does not know what was asked of it
            return UploadFailed(
                f"{self._target.repo_id} was made, but is not private: nothing was uploaded.",
                hint=f"Make it private at {self._asked.page}/settings, and try again.",
            )
        return UsageProblem(
            f"{self._target.repo_id} is there already and is public.",
            hint="--private is for a repository that is made: choose another name, or make that"
            f" one private at {self._asked.page}/settings.",
        )

    def _head(self) -> str | None:
        """Return the commit of the branch; None: there is no such branch."""
        try:
            info = self._api.repo_info(
                self._target.repo_id,
                repo_type=self._asked.repo_type,
                revision=self._target.branch,
            )
        except RevisionNotFoundError:
            return None
        return info.sha

    def _create(self, *, private: bool) -> None:
        try:
            self._api.create_repo(
                self._target.repo_id,
                repo_type=self._asked.repo_type,
                private=private or None,
                exist_ok=True,
            )
        except HfHubHTTPError as problem:
            status = problem.response.status_code
            words = words_of(problem.response, self._asked.token)
            if status not in (403, 404) or lacks_room(status, words):
                raise refusal(problem.response, self._asked) from None
            raise self._why_not(words) from None

    def _why_not(self, words: str) -> MlxbunError:
        """Return why the repository cannot be made, as far as the Hub tells."""
        account = self._account()
        known = account is not None and self._target.namespace in (
            account.name,
            *account.organizations,
        )
        if not known and not self._has_namespace():
            return no_namespace(self._asked)
        return may_not_create(self._asked, account, words)

    def _account(self) -> Account | None:
        try:
            told = self._api.whoami()
        except HfHubHTTPError:
            return None
        organizations = told.get("orgs") or []
        names = [one.get("name") for one in organizations if isinstance(one, dict)]
        role = ((told.get("auth") or {}).get("accessToken") or {}).get("role")
        return Account(
            name=str(told.get("name")),
            organizations=tuple(name for name in names if isinstance(name, str)),
            role=role if isinstance(role, str) else None,
        )

    def _has_namespace(self) -> bool:
        """Return whether there is such a user or organization; an unclear answer counts as yes."""
        for ask in (self._api.get_organization_overview, self._api.get_user_overview):
            try:
                ask(self._target.namespace)
            except HfHubHTTPError as problem:
                if problem.response.status_code == 404:
                    continue
            return True
        return False

    def _make_branch(self) -> None:
        self._api.create_branch(
            self._target.repo_id,
            branch=self._target.branch,
            repo_type=self._asked.repo_type,
            exist_ok=True,
        )

    def _addition(self, file: LocalFile, sha256: str) -> CommitOperationAdd:
        try:
            addition = _Addition(path_in_repo=file.name, path_or_fileobj=file.path)
        except ValueError:  # it is gone
            raise self._ending.fail(changed(file.name)) from None
        except OSError as problem:
            raise self._ending.fail(unread(file.name, problem)) from None
        if addition.upload_info.size != file.size:
            raise self._ending.fail(changed(file.name))
        addition.upload_info.sha256 = bytes.fromhex(sha256)
        addition.watch(file, sha256, self._ending, self._meter)
        return addition

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what huggingface_hub raises inside the block into our errors."""
        try:
            yield
        except (MlxbunError, Stale, Cancelled):
            raise
        except Exception as problem:
            raise self._meaning(problem) from None

    def _meaning(self, problem: Exception) -> Exception:
        """Return the error of ours that a foreign one stands for; the library wraps them."""
        if isinstance(problem, ValueError) and str(problem).startswith(_BAD_BLOCK):
            return self._bad_block(problem)
        found: BaseException | None = problem
        while found is not None:
            if isinstance(found, MlxbunError | Stale | Cancelled):
                return found
            if isinstance(found, HfHubHTTPError):
                return refusal(found.response, self._asked)
            if isinstance(found, OfflineModeIsEnabled):
                return UploadFailed(
                    "HF_HUB_OFFLINE is set, so nothing is uploaded.", hint="Unset it to upload."
                )
            found = found.__cause__ or found.__context__
        foreign = isinstance(problem, ValueError | KeyError | TypeError | AttributeError)
        return self._nonsense(problem) if foreign and not _is_ours(problem) else problem

    def _bad_block(self, problem: ValueError) -> MlxbunError:
        words = clean(str(problem).removeprefix(_BAD_BLOCK), self._asked.token)
        return UploadFailed(
            f"The Hub does not accept the block at the top of README.md ({words.lstrip('. -')}).",
            hint="Repair it in the folder, or leave the card out: --no-card.",
        )

    def _nonsense(self, problem: Exception) -> MlxbunError:
        """Return what to say when the library does not understand the Hub."""
        words = clean(str(problem), self._asked.token)
        return UploadFailed(
            f"The Hub's answer about {self._target} makes no sense ({words}).",
            hint=f"Check HF_ENDPOINT ({self._asked.endpoint}), or report it to whoever runs it.",
        )


def _is_ours(problem: Exception) -> bool:
    """Return whether an exception comes from our own code: a defect, and not the Hub's."""
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__)]
    return str(frames[-1].f_globals.get("__name__")).startswith("core.")


class _Addition(CommitOperationAdd):
    """A file that is watched while the library reads it."""

    def watch(self, file: LocalFile, sha256: str, ending: Ending, meter: Meter) -> None:
        """Say who watches."""
        self._file = file
        self._sha256 = sha256
        self._ending = ending
        self._meter = meter

    @contextmanager
    def as_file(self, with_tqdm: bool = False) -> Iterator[BinaryIO]:  # noqa: ARG002 - the library's
        """Yield the file's content; the bar is ours."""
        watched = WatchedFile(
            self._file, self._sha256, ending=self._ending, on_read=self._meter.read
        )
        with watched:
            yield cast("BinaryIO", watched)
        self._meter.arrived(self._file)
