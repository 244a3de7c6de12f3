"""Vaults in git for tests, the user's own git beside them, and repositories that are hostile."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from core.memory.git import Git

if TYPE_CHECKING:
    import pytest


def new_vault(folder: Path, **articles: str) -> Path:
    """Make a vault with a repository and articles that are not committed yet."""
    (folder / "articles").mkdir(parents=True)
    Git(folder).init()
    for name, text in articles.items():
        (folder / "articles" / f"{name}.md").write_text(text)
    return folder


def sha(text: str) -> str:
    """Return what `Change.before` has to be for a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def user_git(root: Path, *args: str, check: bool = True) -> str:
    """Run git as a user would, with hooks and filters but without settings of this machine."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(root.parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Vera",
        "GIT_AUTHOR_EMAIL": "vera@example.com",
        "GIT_COMMITTER_NAME": "Vera",
        "GIT_COMMITTER_EMAIL": "vera@example.com",
    }
    done = subprocess.run(
        ["git", *args], cwd=root, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def messages(root: Path) -> list[str]:
    """Return author and subject of all commits, the latest first."""
    return user_git(root, "log", "--format=%an: %s").splitlines()


_HOOKS = [
    "applypatch-msg",
    "commit-msg",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
    "fsmonitor-watchman",
]


class Trap:
    """A program that leaves a mark for every time it is run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.program = folder / "trap"
        self.marks = folder / "marks"
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.marks}\ncat 2>/dev/null\n')
        self.program.chmod(0o755)

    def sprung(self) -> list[str]:
        """Return how it was run, and forget it."""
        found = self.marks.read_text().splitlines() if self.marks.exists() else []
        self.marks.unlink(missing_ok=True)
        return found

    def install(self, root: Path) -> None:
        """Put it everywhere in a repository where git runs programs."""
        hooks = root / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in _HOOKS:
            (hooks / name).unlink(missing_ok=True)
            (hooks / name).symlink_to(self.program)
        self._configure(root)
        attributes = "* filter=evil diff=evil merge=evil text=auto eol=crlf ident\n"
        (root / ".gitattributes").write_text(attributes)
        info = root / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(attributes)

    def _configure(self, root: Path) -> None:
        run = str(self.program)
        settings = {
            "core.hooksPath": str(root / ".git" / "hooks"),
            "core.fsmonitor": run,
            "core.pager": run,
            "core.editor": run,
            "core.sshCommand": run,
            "core.askPass": run,
            "core.gitProxy": run,
            "core.alternateRefsCommand": run,
            "core.autocrlf": "true",
            "core.attributesFile": str(root / ".gitattributes"),
            "commit.gpgSign": "true",
            "tag.gpgSign": "true",
            "log.showSignature": "true",
            "gpg.program": run,
            "gpg.format": "ssh",
            "gpg.ssh.program": run,
            "gpg.x509.program": run,
            "user.signingKey": "key",
            "credential.helper": run,
            "diff.external": run,
            "diff.evil.textconv": run,
            "diff.evil.command": run,
            "filter.evil.clean": run,
            "filter.evil.smudge": run,
            "filter.evil.process": run,
            "filter.evil.required": "true",
            "merge.evil.driver": f"{run} %A %O %B",
            "pager.log": run,
            "pager.diff": run,
            "sequence.editor": run,
            "interactive.diffFilter": run,
            "trailer.run.command": run,
            "trailer.run.cmd": run,
            "gc.recentObjectsHook": run,
            "uploadpack.packObjectsHook": run,
            "remote.origin.url": f"ext::{run}",
            "remote.origin.promisor": "true",
            "remote.origin.partialCloneFilter": "blob:none",
            "remote.origin.uploadpack": run,
            "extensions.partialClone": "origin",
            "protocol.allow": "always",
            "protocol.ext.allow": "always",
            "include.path": str(root / "included.config"),
        }
        settings |= {
            f"alias.{name}": f"!{run}"
            for name in [
                "log",
                "show",
                "diff",
                "blame",
                "ls-tree",
                "cat-file",
                "rev-parse",
                "update-ref",
                "read-tree",
                "fast-import",
                "hash-object",
                "ls-files",
                "symbolic-ref",
                "merge-base",
                "diff-tree",
            ]
        }
        (root / "included.config").write_text(f'[filter "evil"]\n\tclean = {run}\n')
        lines = (f'\t{key.rpartition(".")[2]} = "{value}"\n' for key, value in settings.items())
        heads = (_heading(key) for key in settings)
        text = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
        text += "".join(f"{head}\n{line}" for head, line in zip(heads, lines, strict=True))
        (root / ".git" / "config").write_text(text)

    def surround(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        """Put it into the environment and the user's settings as well."""
        home = self.program.parent / "home"
        home.mkdir(exist_ok=True)
        (home / ".gitconfig").write_text(
            f"[core]\n\tfsmonitor = {self.program}\n\thooksPath = {root}/.git/hooks\n"
            f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {self.program}\n"
            f"[diff]\n\texternal = {self.program}\n"
        )
        run = str(self.program)
        environ = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home),
            "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
            "GIT_CONFIG_SYSTEM": str(home / ".gitconfig"),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor",
            "GIT_CONFIG_VALUE_0": run,
            "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={run}'",
            "GIT_EXTERNAL_DIFF": run,
            "GIT_SSH_COMMAND": run,
            "GIT_PAGER": run,
            "GIT_EDITOR": run,
            "GIT_ASKPASS": run,
            "GIT_PROXY_COMMAND": run,
            "GIT_TRACE": str(self.marks),
            "GIT_DIR": str(self.program.parent / "elsewhere"),
            "GIT_WORK_TREE": str(self.program.parent),
            "GIT_INDEX_FILE": str(self.program.parent / "index"),
            "GIT_OBJECT_DIRECTORY": str(self.program.parent / "objects"),
            "GIT_NAMESPACE": "other",
            "GIT_AUTHOR_NAME": "Mallory",
            "GIT_COMMITTER_NAME": "Mallory",
            "GIT_EXEC_PATH": str(self.program.parent),
            "PAGER": run,
            "EDITOR": run,
        }
        for name, value in environ.items():
            patch.setenv(name, value)
        (root / "git").unlink(missing_ok=True)
        (root / "git").symlink_to(self.program)
        patch.setenv("PATH", f".:{root}:{os.environ['PATH']}")
        patch.chdir(root)


def _heading(key: str) -> str:
    section, _, rest = key.partition(".")
    name = rest.rpartition(".")[0]
    return f'[{section} "{name}"]' if name else f"[{section}]"
