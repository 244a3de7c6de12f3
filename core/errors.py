"""Every error that mlxbun raises on purpose, as one tree.

    MlxbunError
    ├── UsageProblem           the caller asked for something that cannot be
    │   ├── BadRequest         a request field is wrong; `field` names it
    │   └── ContextTooLong     the prompt leaves no room to generate
    ├── NotFound               no such model, setting or file
    │   └── VaultMissing       there is no memory vault yet
    ├── Ambiguous              a name that fits several models
    ├── AddressInUse           the port is taken
    ├── AlreadyRunning         the same work is under way, here or in another process
    │   └── VaultBusy          another process writes to the memory vault
    ├── VaultChanged           a file of the vault changed while a change to it was planned
    ├── DoesNotFit             needs more memory or disk than there is
    ├── BackendMissing         MLX has no compute backend on this machine
    ├── GitMissing             there is no usable git on this machine
    ├── BadModelFiles          a model folder that cannot be loaded
    ├── DownloadFailed         a transfer that did not end well
    ├── UploadFailed           the Hub did not take what was sent, or there was no way to it
    ├── ProofFailed            a model that measures worse than its limits, or than it claims
    ├── StoreCorrupt           a file of ours that cannot be read
    └── EngineFailed           the engine could not answer
        ├── QueueFull          too many requests wait already
        ├── EngineStopped      the engine is shutting down or gone
        └── EngineLost         its thread died or stalled; the process has to end

A message says what happened in one sentence; a hint says what to do next in another. There
are no exit codes and no HTTP statuses in here: `commands/_shared/failure.py` and
`commands/serve/failures.py` hold one table each.
"""

from __future__ import annotations


class MlxbunError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        message: what happened, one sentence.
        hint: what to do next, one sentence, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageProblem(MlxbunError):
    """The caller asked for something that cannot be."""


class BadRequest(UsageProblem):
    """A request that is malformed or out of range.

    Attributes:
        field: the name of the field at fault, or None when it is the whole body.
    """

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.field = field


class ContextTooLong(UsageProblem):
    """The prompt leaves no token to generate within the context.

    Attributes:
        prompt_tokens: tokens in the prompt (a lower bound when it was not tokenized in full).
        limit: tokens that the context holds here.
    """

    def __init__(
        self,
        message: str,
        *,
        prompt_tokens: int,
        limit: int,
        hint: str = "Shorten the prompt or use a model with a longer context.",
    ) -> None:
        super().__init__(message, hint=hint)
        self.prompt_tokens = prompt_tokens
        self.limit = limit


class NotFound(MlxbunError):
    """No such model, setting or file."""


class VaultMissing(NotFound):
    """There is no memory vault yet."""


class Ambiguous(MlxbunError):
    """A name that fits several models.

    Attributes:
        candidates: the names it fits, sorted.
    """

    def __init__(
        self, message: str, *, candidates: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.candidates = candidates


class AddressInUse(MlxbunError):
    """The address to listen on is taken."""


class AlreadyRunning(MlxbunError):
    """The same work is under way already, in this process or in another one."""


class VaultBusy(AlreadyRunning):
    """Another process writes to the memory vault."""


class VaultChanged(MlxbunError):
    """A file of the memory vault changed after it was read, so that a change was not made.

    Attributes:
        paths: the files, relative to the vault, sorted.
    """

    def __init__(
        self, message: str, *, paths: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.paths = paths


class DoesNotFit(MlxbunError):
    """Something needs more than there is.

    Attributes:
        need: bytes needed.
        have: bytes available.
    """

    def __init__(self, message: str, *, need: int, have: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.need = need
        self.have = have


class BackendMissing(MlxbunError):
    """MLX cannot be imported, or has no compute backend, on this machine."""


class GitMissing(MlxbunError):
    """There is no usable git on this machine."""


class BadModelFiles(MlxbunError):
    """A model folder whose files are missing, cut short or of an unknown kind."""


class DownloadFailed(MlxbunError):
    """A transfer that did not end well; nothing half done is left where it would be read."""


class UploadFailed(MlxbunError):
    """An upload that did not end well; what the Hub has is not sent again by the next call."""


class ProofFailed(MlxbunError):
    """A model that measures worse than the limits it was given, or other than its table claims.

    Attributes:
        table: what was measured of a model that is not kept (`core.evals.table.ProofTable`), so
            that it can be shown; None: it was shown already.
    """

    table: object | None = None


class StoreCorrupt(MlxbunError):
    """A file of ours (settings, index, jobs) that cannot be read."""


class EngineFailed(MlxbunError):
    """The engine could not answer a request it had accepted."""


class QueueFull(EngineFailed):
    """Too many requests are waiting already."""


class EngineStopped(EngineFailed):
    """The engine is shutting down, or its thread is gone."""


class EngineLost(EngineFailed):
    """The engine's thread died or stalled, and cannot be started again in this process."""
