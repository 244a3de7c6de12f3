"""The token is found in one order, kept for its owner alone, and never told."""

from __future__ import annotations

import stat
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from core.errors import MlxbunError, StoreCorrupt, UsageProblem
from core.hf_token import _hub_token_file, delete_token, find_token, has_own_token, save_token
from core.paths import Paths

SECRET = "hf_secretsecretsecret"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(home=tmp_path / "home", cache=tmp_path / "cache", hub_cache=tmp_path / "hub")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}


def test_the_environment_wins_then_the_hubs_file_then_ours(
    paths: Paths, environ: dict[str, str], tmp_path: Path
) -> None:
    found = find_token(paths, environ)
    assert found is None
    save_token(paths, "hf_ours")
    found = find_token(paths, environ)
    assert found is not None
    assert (found.value, found.source) == ("hf_ours", str(paths.token_file))
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_hubs\n")
    found = find_token(paths, environ)
    assert found is not None
    assert (found.value, found.source) == ("hf_hubs", str(tmp_path / "hf" / "token"))
    (tmp_path / "else").write_text("hf_else")
    found = find_token(paths, environ | {"HF_TOKEN_PATH": str(tmp_path / "else")})
    assert found is not None
    assert found.value == "hf_else"
    found = find_token(paths, environ | {"HF_TOKEN": " hf_environ\n"})
    assert found is not None
    assert (found.value, found.source) == ("hf_environ", "HF_TOKEN")
    switch = {"HF_TOKEN": "hf_environ", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    assert find_token(paths, environ | switch) is None


def test_the_hub_would_read_the_same_file(environ: dict[str, str]) -> None:
    script = "from huggingface_hub import constants; print(constants.HF_TOKEN_PATH)"
    for more in ({}, {"HF_HOME": "/a"}, {"HF_HOME": "", "XDG_CACHE_HOME": "/x"},
                 {"HF_TOKEN_PATH": "~/t"}):  # fmt: skip
        given = {name: value for name, value in (environ | more).items() if value}
        said = subprocess.run(
            [sys.executable, "-c", script], env=given, capture_output=True, text=True, check=True
        )
        place = str(_hub_token_file(given)).replace(str(Path.home()), given["HOME"])
        assert place == said.stdout.strip()


def test_ours_is_readable_by_its_owner_alone_and_goes(paths: Paths) -> None:
    assert has_own_token(paths) is False
    save_token(paths, f" {SECRET} ")
    assert stat.S_IMODE(paths.token_file.stat().st_mode) == 0o600
    assert has_own_token(paths) is True
    save_token(paths, "hf_other")
    assert paths.token_file.read_text() == "hf_other"
    assert [path.name for path in paths.home.iterdir()] == ["hf-token"]
    assert delete_token(paths) is True
    assert delete_token(paths) is False
    assert has_own_token(paths) is False


@pytest.mark.parametrize("value", ["", "  ", f"{SECRET} two", f"{SECRET}\nX: y", "hf_ü", "h" * 600])
def test_what_cannot_be_a_token_is_refused_and_the_old_one_stays(paths: Paths, value: str) -> None:
    save_token(paths, "hf_old")
    with pytest.raises(UsageProblem) as caught:
        save_token(paths, value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert paths.token_file.read_text() == "hf_old"


def test_rubbish_in_a_place_is_told_by_the_places_name(
    paths: Paths, environ: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(UsageProblem, match="HF_TOKEN holds no") as caught:
        find_token(paths, environ | {"HF_TOKEN": f"{SECRET} {SECRET}"})
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_bytes(b"\xff\x00 rubbish" * 10_000)
    with pytest.raises(UsageProblem, match="holds no Hugging Face token"):
        find_token(paths, environ)


def test_a_token_shows_itself_nowhere(paths: Paths, environ: dict[str, str]) -> None:
    token = find_token(paths, environ | {"HF_TOKEN": SECRET})
    assert SECRET not in f"{token} {token!r} {[token]}"


def test_files_that_cannot_be_read_or_written_are_one_sentence(
    paths: Paths, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "hf" / "token").mkdir(parents=True)
    with pytest.raises(StoreCorrupt, match="cannot be read: Is a directory"):
        find_token(paths, environ)
    paths.home.write_text("a file")
    with pytest.raises(MlxbunError, match="cannot be kept") as caught:
        save_token(paths, SECRET)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
