"""`mlxbun.json`: what is written is read, and what somebody else wrote is not believed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import BadModelFiles
from core.provenance import (
    FILE,
    EvalFigure,
    Origin,
    Provenance,
    encode,
    is_repo_id,
    read_provenance,
    write_provenance,
)

WHOLE = Provenance(
    base=Origin(repo_id="org/base", revision="0" * 40),
    relation="quantized",
    license="apache-2.0",
    language=("en", "de"),
    datasets=(Origin(repo_id="org/data"),),
    recipe={"bits": 4, "keys": ("q", "v"), "mode": "affine", "scale": 0.5, "masked": True},
    figures=(
        EvalFigure(name="perplexity", value=7.5, data="wikitext-2", base_value=7.25),
        EvalFigure(name="accuracy", value=0.0, unit="%"),
    ),
    versions={"mlxbun": "0.1.0", "mlx-lm": "0.32.2"},
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_provenance(tmp_path, WHOLE)
    assert read_provenance(tmp_path) == WHOLE
    assert os.listdir(tmp_path) == [FILE]  # noqa: PTH208
    content = json.loads((tmp_path / FILE).read_text("utf-8"))
    assert content["schema"] == 1
    assert content["base_model"] == {"id": "org/base", "revision": "0" * 40}
    assert content["figures"][1] == {"name": "accuracy", "value": 0.0, "unit": "%"}


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    assert encode(Provenance()) == {"schema": 1}
    write_provenance(tmp_path, Provenance())
    assert read_provenance(tmp_path) == Provenance()
    assert read_provenance(tmp_path / "elsewhere") is None


def test_keys_that_are_not_known_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"schema": 1, "new": [1], "recipe": {"a": null, "b": 1}}')
    assert read_provenance(tmp_path) == Provenance(recipe={"b": 1})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "not a JSON object"),
        ("{", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ("{}", "names no schema"),
        ({"schema": "1"}, "names no schema"),
        ({"schema": 2}, "a newer mlxbun has written it"),
        ({"schema": 1, "base_model": "org/base"}, "not a JSON object"),
        ({"schema": 1, "base_model": {"id": "/home/me/base"}}, "no id of the form"),
        ({"schema": 1, "base_model": {"id": "../x"}}, "no id of the form"),
        ({"schema": 1, "base_model": {"id": "a/b", "revision": 1}}, "revision holds something"),
        ({"schema": 1, "relation": "copy"}, "relation is none of"),
        ({"schema": 1, "license": ["mit"]}, "license holds something"),
        ({"schema": 1, "language": "en"}, "language is not a list"),
        ({"schema": 1, "language": [1]}, "language holds something"),
        ({"schema": 1, "datasets": [{"id": 1}]}, "no id of the form"),
        ({"schema": 1, "recipe": []}, "recipe is not a JSON object"),
        ({"schema": 1, "recipe": {"a": {"b": 1}}}, "neither text nor number"),
        ({"schema": 1, "recipe": {"a": [[1]]}}, "neither text nor number"),
        ({"schema": 1, "recipe": {"a": float("inf")}}, "neither text nor number"),
        ({"schema": 1, "figures": [1]}, "a figure in it is not"),
        ({"schema": 1, "figures": [{"name": "x"}]}, "no name or no value"),
        ({"schema": 1, "figures": [{"name": "x", "value": "1"}]}, "value is not a number"),
        ({"schema": 1, "figures": [{"name": "x", "value": True}]}, "value is not a number"),
        ({"schema": 1, "figures": [{"name": "x", "value": float("nan")}]}, "is not a number"),
        ({"schema": 1, "figures": [{"name": "x", "value": 10**400}]}, "is not a number"),
        ({"schema": 1, "versions": {"a": 1}}, "versions holds something"),
    ],
)
def test_what_is_not_of_the_form(content: Any, said: str, tmp_path: Path) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(BadModelFiles) as caught:
        read_provenance(tmp_path)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(BadModelFiles, match="no regular file"):
        read_provenance(tmp_path)


def test_names_of_repositories() -> None:
    assert is_repo_id("org/Model-4bit.v2_x")
    for text in ("name", "/a/b", "./a", "../b", "a/b/c", "a--b/c", "a/..", "a/b\n", "~/x", ""):
        assert not is_repo_id(text)
