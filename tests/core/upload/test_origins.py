"""What a name in a config stands for, and what a base model's card hands on."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.provenance import Origin
from core.upload.origins import (
    NO_TERMS,
    name_of_data,
    origin_of,
    read_terms,
    tells_paths,
    terms_in,
)
from tests.caches import add_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CARD = b"""---
license: other
license_name: their-own
license_link: https://example.org/license
language:
- en
- de
pipeline_tag: text-generation
base_model: org/older
---
# A model
"""


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("org/base", Origin(repo_id="org/base")),
        (
            f"/home/me/.cache/huggingface/hub/models--org--base/snapshots/{COMMIT}",
            Origin(repo_id="org/base", revision=COMMIT),
        ),
        (
            f"~/hub/models--org--base/snapshots/{COMMIT}/",
            Origin(repo_id="org/base", revision=COMMIT),
        ),
        ("/x/models--org--base", Origin(repo_id="org/base")),
        ("/x/models--org--base/snapshots/main", Origin(repo_id="org/base")),
        ("/home/me/models/llama", None),
        ("./org/base", None),
        ("../org", None),
        ("~/models/base", None),
        ("base", None),
        ("a/b/c", None),
        ("", None),
        (None, None),
        (["org/base"], None),
        ("x" * 5000, None),
        ("org/base\n", None),
    ],
)  # fmt: skip
def test_names(name: object, origin: Origin | None, tmp_path: Path) -> None:
    assert origin_of(name, beside=tmp_path) == origin


def test_a_folder_is_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "llama").mkdir(parents=True)
    folder = tmp_path / "adapters"
    folder.mkdir()
    assert origin_of("models/llama", beside=folder) is None
    assert origin_of("models/other", beside=folder) == Origin(repo_id="models/other")
    elsewhere = tmp_path / "a" / "b" / "c" / "d" / "e"
    elsewhere.mkdir(parents=True)
    assert origin_of("models/llama", beside=elsewhere) is not None
    monkeypatch.chdir(tmp_path)
    assert origin_of("models/llama", beside=elsewhere) is None


def test_names_of_data(tmp_path: Path) -> None:
    assert name_of_data("org/data", beside=tmp_path) == "org/data"
    assert name_of_data("/home/me/clients/chats", beside=tmp_path) == "chats"
    assert name_of_data("data/", beside=tmp_path) == "data"
    for nothing in (None, "", "/", 3):
        assert name_of_data(nothing, beside=tmp_path) is None


def test_paths_in_a_config() -> None:
    config = {"a": "/x/y", "b": "~/x", "c": "./x", "d": "org/x", "e": "/", "f": 1, "g": "text"}
    assert tells_paths(config) == ["a", "b", "c"]


def test_the_card_of_a_base_model(tmp_path: Path) -> None:
    older = b"---\nlicense: mit\n---\n"
    add_model(tmp_path, "org/base", commit=COMMIT, weights={"README.md": CARD})
    add_model(tmp_path, "org/base", commit="f" * 40, weights={"README.md": older}, ref="old")
    told = read_terms(Origin(repo_id="org/base"), tmp_path)
    assert told.license == {
        "license": "other",
        "license_name": "their-own",
        "license_link": "https://example.org/license",
    }
    assert told.language == ("en", "de")
    assert told.pipeline_tag == "text-generation"
    at = read_terms(Origin(repo_id="org/base", revision="f" * 40), tmp_path)
    assert at.license == {"license": "mit"}
    unknown = read_terms(Origin(repo_id="org/base", revision="1" * 40), tmp_path)
    assert unknown == told
    assert read_terms(Origin(repo_id="org/other"), tmp_path) == NO_TERMS


def test_cards_that_say_nothing() -> None:
    assert terms_in({}) == NO_TERMS
    assert terms_in({"license": 3, "language": [1, None], "pipeline_tag": ["x"]}) == NO_TERMS
    assert terms_in({"license": ["mit"], "language": "en"}).license == {"license": "mit"}
