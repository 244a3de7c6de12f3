"""Tokenizers come back from their cards as they were, without transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.engine.request import ChatPrompt
from core.engine.slim import load_tokenizer
from core.engine.tokenizer import Tokenizer
from core.engine.tokenizer_card import CardShelf, make_card
from tests.tiny import make_model

TEXTS = [
    "",
    "Hello",
    "héllo wörld 😀",
    "<|im_start|>user\nHi<|im_end|>",
    "a\x00b\r\n\t ",
    "x" * 5000,
]


@pytest.fixture
def shelf(tmp_path: Path) -> CardShelf:
    return CardShelf(tmp_path / "cards")


def cards(shelf: CardShelf) -> list[Path]:
    return sorted(shelf._folder.glob("*")) if shelf._folder.exists() else []


def check_same(folder: Path, tokenizer: Tokenizer) -> None:
    theirs = load_tokenizer(folder, None)
    for text in TEXTS:
        for special in (False, True):
            ids = tokenizer.encode(text, special=special)
            assert ids == theirs.encode(text, add_special_tokens=special)
            assert tokenizer.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert tokenizer.eos_ids == theirs.eos_token_ids
    conversation = [{"role": "user", "content": "Hi"}]
    assert tokenizer.render(ChatPrompt(messages=tuple(conversation))) == (
        theirs.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
    )


def test_the_same_tokenizer_with_and_without_a_card(tiny_folder: Path, shelf: CardShelf) -> None:
    for _ in range(2):
        check_same(tiny_folder, Tokenizer.load(tiny_folder, eos_ids=None, shelf=shelf))
        assert len(cards(shelf)) == 1


@pytest.mark.starter
def test_the_starter_too(starter_folder: Path, shelf: CardShelf) -> None:
    for _ in range(2):
        check_same(starter_folder, Tokenizer.load(starter_folder, eos_ids=None, shelf=shelf))


def test_the_second_start_does_without_transformers(tiny_folder: Path, shelf: CardShelf) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from core.engine.slim import import_mlx_lm; import_mlx_lm()\n"
        "from core.engine.tokenizer import Tokenizer\n"
        "from core.engine.tokenizer_card import CardShelf\n"
        "import mlx_lm.generate\n"
        f"t = Tokenizer.load(Path({str(tiny_folder)!r}), eos_ids=None, shelf=CardShelf("
        f"Path({str(shelf._folder)!r})))\n"
        "print('transformers' in sys.modules, t.encode('Hi', special=False))\n"
        "modules = [sys.modules['mlx_lm.' + n] for n in ('tokenizer_utils', 'utils', 'generate')]\n"
        "print(len({module.TokenizerWrapper for module in modules}) == 1)\n"
    )
    lines = [
        subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.split("\n")
        for _ in range(2)
    ]
    assert lines[0][0] == "True [72, 105]"
    assert lines[1][0] == "False [72, 105]"
    assert lines[0][1] == lines[1][1] == "True"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"backend": 1}', b"\xff\xfe"])
def test_a_damaged_card_is_made_again(tiny_folder: Path, shelf: CardShelf, damage: bytes) -> None:
    Tokenizer.load(tiny_folder, eos_ids=None, shelf=shelf)
    (card,) = cards(shelf)
    whole = card.read_bytes()
    card.write_bytes(damage)
    check_same(tiny_folder, Tokenizer.load(tiny_folder, eos_ids=None, shelf=shelf))
    assert card.read_bytes() == whole


def test_a_changed_file_makes_another_card(tmp_path: Path, shelf: CardShelf) -> None:
    folder = make_model(tmp_path / "tiny")
    Tokenizer.load(folder, eos_ids=None, shelf=shelf)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": "changed"}))
    changed = Tokenizer.load(folder, eos_ids=None, shelf=shelf)
    assert changed.render(ChatPrompt(messages=({"role": "user", "content": "Hi"},))) == "changed"
    assert len(cards(shelf)) == 2


def test_a_place_that_cannot_be_written_is_no_matter(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    shelf = CardShelf(tmp_path / "file" / "cards")
    check_same(tiny_folder, Tokenizer.load(tiny_folder, eos_ids=None, shelf=shelf))


def test_a_tokenizer_with_code_of_its_own_has_no_card(tmp_path: Path, shelf: CardShelf) -> None:
    folder = make_model(tmp_path / "tiny")
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text()) | {"tokenizer_class": "NewlineTokenizer"}
    file.write_text(json.dumps(settings))
    assert make_card(load_tokenizer(folder, None)) is None
    tokenizer = Tokenizer.load(folder, eos_ids=None, shelf=shelf)
    assert tokenizer.encode("a\nb", special=False) == [*b"a<n>b"]
    assert not cards(shelf)
