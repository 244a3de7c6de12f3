"""The secret of a vault: what placeholders and the marks of forgotten texts are keyed with.

It lies in the vault's `.git/mlxbun/key`, which git never commits and never pushes, readable by the
user only. A vault without a repository keeps it in `.mlxbun/key`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from core.errors import StoreCorrupt
from core.registry.files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

_BYTES = 32


def private_folder(root: Path) -> Path:
    """Return the folder in a vault that git never commits; it need not be there yet."""
    git = root / ".git"
    return git / "mlxbun" if git.is_dir() else root / ".mlxbun"


def vault_key(root: Path) -> bytes:
    """Return the secret of a vault, and make it if there is none yet.

    Raises:
        StoreCorrupt: the file cannot be read or written, or holds something else.
    """
    path = private_folder(root) / "key"
    try:
        if not path.exists():
            _make(path)
        data = read_bytes(path, limit=2 * _BYTES + 1).strip()
        key = bytes.fromhex(data.decode("ascii"))
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it holds something else"
        raise StoreCorrupt(
            f"The key of the vault {path} cannot be read: {reason}.",
            hint="Restore it from a backup: placeholders and forgotten texts depend on it.",
        ) from problem
    if len(key) != _BYTES:
        raise StoreCorrupt(
            f"The key of the vault {path} is incomplete.", hint="Restore it from a backup."
        )
    return key


def keyed(key: bytes, *parts: str) -> str:
    """Return a hash of texts, in hexadecimal, that says nothing about them without the key."""
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _make(path: Path) -> None:
    """Write a new key, unless another process has been faster."""
    import secrets

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".key.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
