"""Redaction: secrets go, harmless text stays, and hostile text costs no more than its length."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.memory.redact.redactor import Redactor
from tests.core.memory.redact.corpus import harmless, hostile, secrets

REDACTOR = Redactor(b"k" * 32)
_PLACEHOLDER = re.compile(r"\[[a-z -]+ [0-9a-f]{6}\]")


def test_the_corpus_is_large_enough() -> None:
    assert len(harmless()) >= 1000
    assert len(secrets()) >= 200
    assert {kind for _, _, kind in secrets()} == {
        "key", "token", "password", "e-mail", "card", "iban", "phone", "private key"
    }  # fmt: skip


def test_harmless_lines_stay() -> None:
    lines = harmless()
    wrong = [line for line in lines if REDACTOR.redact(line) != line]
    assert len(wrong) <= len(lines) // 100, wrong
    # Together they are no different: what a line holds does not depend on its neighbours.
    assert _PLACEHOLDER.findall(REDACTOR.redact("\n".join(lines)))[len(wrong) :] == []


def test_secrets_go_and_nothing_else_does() -> None:
    missed = []
    for line, secret, kind in secrets():
        before, _, after = line.partition(secret)
        shown = re.escape(before) + rf"\[{kind} [0-9a-f]{{6}}\]" + re.escape(after)
        if not re.fullmatch(shown, REDACTOR.redact(line)):
            missed.append((line, REDACTOR.redact(line)))
    assert missed == []


def test_the_rates(record_property: Callable[[str, object], None]) -> None:
    lines = harmless()
    wrong = sum(REDACTOR.redact(line) != line for line in lines)
    found = sum(secret not in REDACTOR.redact(line) for line, secret, _ in secrets())
    record_property("false positives", wrong / len(lines))
    record_property("recall", found / len(secrets()))
    assert wrong / len(lines) <= 0.01
    assert found / len(secrets()) >= 0.99


def test_redacting_twice_is_redacting_once() -> None:
    for line, _, _ in secrets():
        once = REDACTOR.redact(line)
        assert REDACTOR.redact(once) == once


@given(
    st.lists(
        st.sampled_from([line for line, _, _ in secrets()[::7]] + ["x", "\n", "=", ":", " ", '"']),
        max_size=6,
    )
)
def test_joined_lines_are_stable(pieces: list[str]) -> None:
    once = REDACTOR.redact("".join(pieces))
    assert REDACTOR.redact(once) == once


def test_placeholders_are_stable_within_a_vault_and_differ_between_vaults() -> None:
    first = REDACTOR.redact("I am Ada@Example.org.")
    assert REDACTOR.redact("Write to ada@example.org!") == first.replace(
        "I am", "Write to"
    ).replace(".", "!")
    assert Redactor(b"z" * 32).redact("I am Ada@Example.org.") != first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+49 170 1234567", "0049 170 1234567"),
        ("4111 1111 1111 1111", "4111-1111-1111-1111"),
        ("DE89 3704 0044 0532 0130 00", "de89370400440532013000"),
    ],
)
def test_spellings_of_a_number_are_one_placeholder(one: str, other: str) -> None:
    assert REDACTOR.redact(one) == REDACTOR.redact(other)


@pytest.mark.parametrize(
    "line",
    ["4111 1111 1111 1112", "DE88 3704 0044 0532 0130 00", "XX89 3704 0044 0532 0130 00",
     "+1 115 555 2671", "+999 170 1234567", "5555-5555-5555-4445"],
)  # fmt: skip
def test_numbers_are_checked(line: str) -> None:
    assert REDACTOR.redact(line) == line


@pytest.mark.parametrize("name", hostile(1000))
def test_hostile_text_ends(name: str) -> None:
    """At this size, work that is quadratic does not end before pytest gives the test up."""
    text = hostile(500_000)[name]
    assert REDACTOR.redact(text)
    assert REDACTOR.redact(text + " ada@example.org ").endswith("] ")
