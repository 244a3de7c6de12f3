"""The held-out text and the calibration mixes: enough of each, and no text in both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from core.engine.tokenizer import Tokenizer
from core.evals.documents import Document
from core.evals.heldout import (
    DOMAINS,
    first_shared_tokens,
    first_shared_words,
    heldout_digest,
    heldout_documents,
    heldout_rows,
)
from core.evals.overlap import shared_runs, words_of
from core.quantize.calibration import calibration_rows, check_calibration
from core.rows.examples import Conversation
from tests.tiny import make_model

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def byte_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = make_model(tmp_path_factory.mktemp("models") / "tiny")
    return Tokenizer.load(folder, eos_ids=256, shelf=None)


@pytest.fixture(scope="module")
def starter_tokenizer(starter_folder: Path) -> Tokenizer:
    return Tokenizer.load(starter_folder, eos_ids=2, shelf=None)


def tokens_by_domain(domains: tuple[str, ...], rows: tuple[tuple[int, ...], ...]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for domain, row in zip(domains, rows, strict=True):
        counts[domain] += len(row)
    return counts


@pytest.mark.starter
def test_there_is_enough_of_every_domain(starter_tokenizer: Tokenizer) -> None:
    held_out = heldout_rows(starter_tokenizer, length=512)
    counts = tokens_by_domain(held_out.domains, held_out.rows)
    assert set(counts) == set(DOMAINS)
    assert min(counts.values()) >= 1_400
    assert held_out.tokens >= 9_000
    assert held_out.notes == ()
    mix = calibration_rows("mlxbun", starter_tokenizer, n=0, length=512)
    assert 16_000 <= mix.tokens <= 20_000
    assert set(mix.domains) == set(DOMAINS)


@pytest.mark.starter
def test_the_mix_shares_no_tokens_with_the_held_out_text(starter_tokenizer: Tokenizer) -> None:
    mix = check_calibration("mlxbun")
    assert first_shared_tokens(mix, starter_tokenizer) is None
    shared = first_shared_tokens(heldout_documents()[-1:], starter_tokenizer)
    assert shared is not None


def test_the_mix_shares_no_words_with_the_held_out_text() -> None:
    assert first_shared_words(check_calibration("mlxbun")) is None
    assert first_shared_words(heldout_documents()[:1]) is not None


@pytest.mark.parametrize("documents", [heldout_documents(), check_calibration("mlxbun")])
def test_no_text_repeats_another(documents: tuple[Document, ...]) -> None:
    """Between documents: a document may return to its own words, as a revised letter does."""
    words = [[words_of(piece) for piece in d.pieces if len(piece) > 200] for d in documents]
    for index, pieces in enumerate(words):
        others = [piece for other in words[:index] for piece in other]
        assert not list(shared_runs(pieces, others)), documents[index]


@pytest.mark.parametrize("documents", [heldout_documents(), check_calibration("mlxbun")])
def test_domains_hold_what_their_names_say(documents: tuple[Document, ...]) -> None:
    chats = [d.example for d in documents if d.domain in ("chat", "tools")]
    conversations = [each for each in chats if isinstance(each, Conversation)]
    assert len(conversations) == len(chats) >= 8
    for document in documents:
        if document.domain == "tools":
            assert isinstance(document.example, Conversation)
            names = {tool["function"]["name"] for tool in document.example.tools}
            calls = [c for m in document.example.messages for c in m.get("tool_calls") or ()]
            assert calls
            assert {call["function"]["name"] for call in calls} <= names
            asked = [call["id"] for call in calls]
            answered = [m["tool_call_id"] for m in document.example.messages if m["role"] == "tool"]
            assert asked == answered
    scripts = "".join(d.plain for d in documents if d.domain == "scripts")
    for sample in "äéñяωعह茶のㄱ".replace("ㄱ", "한"):
        assert any(ord(c) // 256 == ord(sample) // 256 for c in scripts), sample


def test_a_tokenizer_of_letters_shares_no_runs_by_chance(byte_tokenizer: Tokenizer) -> None:
    assert first_shared_tokens(check_calibration("mlxbun"), byte_tokenizer) is None


def test_the_digest_is_of_the_text_alone(byte_tokenizer: Tokenizer) -> None:
    one = heldout_rows(byte_tokenizer, length=64)
    other = heldout_rows(byte_tokenizer, length=128)
    assert one.digest == other.digest == heldout_digest()
    assert len(one.rows) > len(other.rows)


def test_the_texts_are_part_of_the_wheel() -> None:
    builder = WheelBuilder(str(ROOT))
    shipped = {file.distribution_path for file in builder.recurse_included_files()}
    for folder in ("core/evals/texts/heldout", "core/quantize/mixes/mlxbun"):
        assert {f"{folder}/{name}.jsonl" for name in DOMAINS} <= shipped
