"""`/api/model/resolve-folder`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.caches import add_model
from tests.commands.serve.home import Home
from tests.tiny import make_model

PATH = "/api/model/resolve-folder"
ALIAS = "/api/quantize/resolve-folder"
NOT_THERE = {
    "ok": False,
    "error": "Couldn't locate this folder on disk — paste the path instead.",
}


def test_a_picked_folder_becomes_a_path(home: Home) -> None:
    snapshot = add_model(home.paths.hub_cache, "org/name")
    found = {"ok": True, "path": str(snapshot), "repo_id": "org/name", "model_type": "llama"}
    assert home.post(PATH, {"folder_name": "models--org--name"}) == found
    assert home.post(PATH, {"folder_name": snapshot.name, "rel_path": None}) == found
    inside = f"snapshots/{snapshot.name}/config.json"
    assert home.post(PATH, {"folder_name": "snapshots", "rel_path": inside}) == found
    assert home.post(PATH, {"rel_path": inside}) == found
    assert home.post(ALIAS, {"rel_path": inside}) == found


def test_a_plain_folder_has_a_path_alone(home: Home) -> None:
    plain = make_model(home.paths.cache / "mine")
    assert home.post(PATH, {"folder_name": "mine"}) == {"ok": True, "path": str(plain)}


@pytest.mark.parametrize(
    "body", [{}, {"folder_name": "nothing"}, {"folder_name": ""}, {"folder_name": "\ud800"}]
)
def test_what_is_not_there(home: Home, body: dict[str, Any]) -> None:
    answer = home.client.post(
        PATH, content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()) == (200, NOT_THERE)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"folder_name": "../../etc"}, "folder_name"),
        ({"folder_name": "a\0b"}, "folder_name"),
        ({"folder_name": 5}, "folder_name"),
        ({"folder_name": ["x"]}, "folder_name"),
        ({"folder_name": "x", "rel_path": "../x/config.json"}, "rel_path"),
        ({"folder_name": "x", "rel_path": {}}, "rel_path"),
    ],
)
def test_what_no_picker_tells(home: Home, body: dict[str, Any], field: str) -> None:
    answer = home.client.post(PATH, json=body)
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["ok"] is False
    assert field in problem["error"]
