"""`/api/settings/hf-token`: kept, told of, and never told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.commands.serve.home import Home
from tests.processes import NOWHERE

PATH = "/api/settings/hf-token"
SECRET = "hf_" + "s" * 30


def test_a_token_comes_and_goes(home: Home) -> None:
    assert home.get(PATH) == {"ok": True, "hasToken": False}
    assert home.post(PATH, {"token": f" {SECRET}\n"}) == {"ok": True}
    assert home.get(PATH) == {"ok": True, "hasToken": True}
    file = home.paths.token_file
    assert file.read_text() == SECRET
    assert file.stat().st_mode & 0o777 == 0o600
    answer = home.client.delete(PATH)
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "hasToken": False})
    assert not file.exists()
    assert home.client.delete(PATH).json() == {"ok": True, "hasToken": False}


def test_a_token_of_the_environment_counts(tmp_path: Path) -> None:
    with Home.opened(tmp_path / "home", NOWHERE, HF_TOKEN=SECRET) as home:
        assert home.get(PATH)["hasToken"] is True
        assert home.client.delete(PATH).json()["hasToken"] is True


@pytest.mark.parametrize("token", ["", " ", None, 5, ["hf_x"], {"a": 1}, True])
def test_no_token(home: Home, token: Any) -> None:
    answer = home.client.post(PATH, json={"token": token})
    assert answer.status_code == 400
    assert answer.json() == {"ok": False, "error": "token required"}


@pytest.mark.parametrize("token", ["two words", "hf_\r\nX-Evil: 1", "hf_\0", "hf_é", "x" * 600])
def test_what_can_be_no_token_is_not_kept_and_not_repeated(home: Home, token: str) -> None:
    home.post(PATH, {"token": SECRET})
    answer = home.client.post(PATH, json={"token": token})
    assert answer.status_code == 400
    assert token not in answer.text
    assert home.paths.token_file.read_text() == SECRET


def test_a_place_that_cannot_be_written(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.paths.home.parent.mkdir(parents=True, exist_ok=True)
    home.paths.home.write_text("a file where a folder should be")
    with caplog.at_level(logging.DEBUG):
        answer = home.client.post(PATH, json={"token": SECRET})
    assert answer.status_code == 500
    assert "cannot be kept" in answer.json()["error"]
    assert SECRET not in answer.text
    assert SECRET not in caplog.text


def test_a_token_that_is_none_in_the_environment(tmp_path: Path) -> None:
    with Home.opened(tmp_path / "home", NOWHERE, HF_TOKEN="no token") as home:
        answer = home.client.get(PATH)
        assert answer.status_code == 400
        assert "HF_TOKEN" in answer.json()["error"]
        assert "no token" not in answer.json()["error"]
