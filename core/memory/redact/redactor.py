"""Secrets in a text, and the placeholders that stand for them. Linear in the length of the text.

A placeholder says what it stands for and, by six digits of a keyed hash, which one: the same
address is `[e-mail 3f2a9c]` in every conversation of a vault, and another one elsewhere. A text
whose secrets are replaced stays as it is when it is redacted again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.memory.redact import numbers, patterns
from core.memory.redact.key import keyed, vault_key
from core.memory.redact.values import is_key, is_password, is_vendor_key

if TYPE_CHECKING:
    from core.memory.vault import HasRoot

VERSION = 1
"""Raised when more is found than before: sources are read again then."""
_DIGITS = re.compile(r"\d")


class Redactor:
    """Replaces secrets with the placeholders of one vault."""

    def __init__(self, key: bytes) -> None:
        """Take the vault's secret (`core.memory.redact.key`)."""
        self._key = key

    def redact(self, text: str) -> str:
        """Return a text with every secret in it replaced by a placeholder."""
        for step in (
            self._blocks,
            self._vendors,
            self._addresses,
            self._bearers,
            self._assignments,
            self._emails,
            self._ibans,
            self._cards,
            self._phones,
        ):
            text = step(text)
        return text

    def placeholder(self, kind: str, value: str) -> str:
        """Return what stands for a secret: `[KIND 3f2a9c]`."""
        return f"[{kind} {keyed(self._key, kind, value)[:6]}]"

    def _blocks(self, text: str) -> str:
        if "PRIVATE KEY" not in text:
            return text
        return patterns.KEY_BLOCK.sub(lambda m: self.placeholder("private key", m[0]), text)

    def _vendors(self, text: str) -> str:
        for prefix, pattern, kind in patterns.VENDOR_PATTERNS:
            if prefix in text:
                text = pattern.sub(
                    lambda m, kind=kind: (  # type: ignore[misc]
                        self.placeholder(kind, m[0]) if is_vendor_key(m[0]) else m[0]
                    ),
                    text,
                )
        if "hooks.slack.com" in text:
            text = patterns.SLACK_HOOK.sub(lambda m: self.placeholder("token", m[0]), text)
        return text

    def _addresses(self, text: str) -> str:
        if "://" not in text:
            return text
        return patterns.URL_PASSWORD.sub(lambda m: m[1] + self.placeholder("password", m[2]), text)

    def _bearers(self, text: str) -> str:
        lower = text.lower()
        if "bearer" not in lower and "authorization" not in lower:
            return text
        return patterns.BEARER.sub(
            lambda m: m[1] + self.placeholder("token", m[2]) if _DIGITS.search(m[2]) else m[0],
            text,
        )

    def _assignments(self, text: str) -> str:
        lower = text.lower()
        if not any(hint in lower for hint in patterns.ASSIGNMENT_HINTS):
            return text
        if "phrase" in lower:
            text = patterns.PHRASE.sub(self._phrase, text)
        return patterns.ASSIGNMENT.sub(self._assignment, text)

    def _phrase(self, match: re.Match[str]) -> str:
        return match[1] + (match[2] or "") + self.placeholder("password", match[3] or match[4])

    def _assignment(self, match: re.Match[str]) -> str:
        value = match["value"]
        if match["password"]:
            kind, secret = "password", is_password(match)
        else:
            kind, secret = "key", is_key(match)
        if secret is None:
            return match[0]
        start = match.start("value") - match.start()
        rest = value[len(secret) :] + match["end"]
        return match[0][:start] + self.placeholder(kind, secret) + rest

    def _emails(self, text: str) -> str:
        if "@" not in text:
            return text

        def replaced(match: re.Match[str]) -> str:
            if match[3].lower() in patterns.NOT_DOMAINS or match[1] in patterns.NOT_MAILBOXES:
                return match[0]
            if match.string.endswith("://", 0, match.start()):  # an account at a server
                return match[0]
            return self.placeholder("e-mail", match[0].lower())

        return patterns.EMAIL.sub(replaced, text)

    def _ibans(self, text: str) -> str:
        parts: list[str] = []
        done = 0
        for match in numbers.IBAN.finditer(text):
            if match.start() < done:
                continue
            end = numbers.iban_end(text, match.start())
            if end is not None:
                compact = text[match.start() : end].replace(" ", "").upper()
                parts += [text[done : match.start()], self.placeholder("iban", compact)]
                done = end
        return "".join([*parts, text[done:]])

    def _cards(self, text: str) -> str:
        def replaced(match: re.Match[str]) -> str:
            if not numbers.is_card(match[0]):
                return match[0]
            return self.placeholder("card", re.sub(r"\D", "", match[0]))

        return numbers.CARD.sub(replaced, text)

    def _phones(self, text: str) -> str:
        if "+" not in text and "00" not in text:
            return text

        def replaced(match: re.Match[str]) -> str:
            digits = numbers.phone_digits(match)
            return match[0] if digits is None else self.placeholder("phone", digits)

        return numbers.PHONE.sub(replaced, text)


def redactor(vault: HasRoot) -> Redactor:
    """Return the redactor of a vault.

    Raises:
        StoreCorrupt: the vault's key cannot be read or made.
    """
    return Redactor(vault_key(vault.root))
