"""`/library` and `/api/hub/local`: what is on the disk, and whether it fits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings
from tests.caches import add_model, safetensors
from tests.commands.serve.home import Home
from tests.fakehub import FakeHub
from tests.tiny import llama_config, make_model

LIBRARY = [
    "repo_id", "model_type", "size_bytes", "quant_bits", "vision", "audio", "supported",
    "support_tier", "serving", "assessment",
]  # fmt: skip
LOCAL = [
    "repo_id", "model_type", "size_bytes", "quant_bits", "quant_group_size", "vision", "supported",
    "support_tier", "assessment",
]  # fmt: skip


@pytest.fixture
def plenty(home: Home) -> Home:
    home.engine.budget_bytes = 10**9
    return home


def _add_tiny(home: Home, repo_id: str, tmp_path: Path, **options: Any) -> Path:
    made = make_model(tmp_path / repo_id.replace("/", "-"), **options)
    files = {path.name: path.read_bytes() for path in made.iterdir() if path.name != "config.json"}
    config = (made / "config.json").read_bytes()
    return add_model(home.paths.hub_cache, repo_id, config=config, weights=files)


def test_nothing_is_an_empty_list(home: Home) -> None:
    assert home.get("/library") == {"models": []}
    assert home.get("/api/hub/local") == {"ok": True, "models": []}


def test_a_row_has_the_fields_of_the_protocol(plenty: Home, tmp_path: Path) -> None:
    packed = _add_tiny(plenty, "org/packed", tmp_path, bits=4)
    plenty.engine.model_id = "org/packed"
    (row,) = plenty.get("/library")["models"]
    assert list(row) == LIBRARY
    assert row["repo_id"] == "org/packed"
    assert row["model_type"] == "llama"
    assert row["quant_bits"] == 4
    assert row["size_bytes"] == sum(path.stat().st_size for path in packed.iterdir())
    assert (row["vision"], row["audio"]) == (False, False)
    assert (row["supported"], row["support_tier"], row["serving"]) == (True, "generic", True)
    window = json.loads((packed / "config.json").read_bytes())["max_position_embeddings"]
    assert row["assessment"]["fits"] is True
    assert row["assessment"]["max_safe_context"] == window
    assert row["assessment"]["predicted_decode_tps"] > 0
    (local,) = plenty.get("/api/hub/local")["models"]
    assert list(local) == LOCAL
    assert local["quant_group_size"] == 32
    assert local["assessment"] == row["assessment"]


def test_what_does_not_fit_says_so(home: Home, tmp_path: Path) -> None:
    _add_tiny(home, "org/tiny", tmp_path)
    (row,) = home.get("/library")["models"]
    assert row["assessment"]["fits"] is False
    assert row["assessment"]["max_safe_context"] == 0
    assert row["serving"] is False


def test_the_served_folder_is_marked_whatever_it_is_called(plenty: Home, tmp_path: Path) -> None:
    plenty.engine.folder = _add_tiny(plenty, "org/tiny", tmp_path)
    assert plenty.get("/library")["models"][0]["serving"] is True


def test_an_answer_is_kept_for_a_while(home: Home) -> None:
    add_model(home.paths.hub_cache, "org/one")
    first = home.get("/library")
    add_model(home.paths.hub_cache, "org/two")
    assert home.get("/library") == first
    assert home.get("/library?refresh=0") == first
    names = [row["repo_id"] for row in home.get("/library?refresh=1")["models"]]
    assert names == ["org/one", "org/two"]
    assert [row["repo_id"] for row in home.get("/library")["models"]] == names


def test_the_hub_panel_sees_the_disk_as_it_is(home: Home) -> None:
    assert home.get("/api/hub/local")["models"] == []
    add_model(home.paths.hub_cache, "org/one")
    assert [row["repo_id"] for row in home.get("/api/hub/local")["models"]] == ["org/one"]


def test_a_verdict_follows_the_files_and_the_budget(plenty: Home, tmp_path: Path) -> None:
    _add_tiny(plenty, "org/tiny", tmp_path)
    assert plenty.get("/api/hub/local")["models"][0]["assessment"]["fits"] is True
    plenty.engine.budget_bytes = 1000
    assert plenty.get("/api/hub/local")["models"][0]["assessment"]["fits"] is False
    plenty.engine.budget_bytes = 10**9
    config = llama_config(max_position_embeddings=512)
    add_model(
        plenty.paths.hub_cache,
        "org/tiny",
        commit="c" * 40,
        config=json.dumps(config).encode(),
        weights={"model.safetensors": safetensors()},
    )
    assessment = plenty.get("/api/hub/local")["models"][0]["assessment"]
    assert assessment is None or assessment["max_safe_context"] == 512


@pytest.mark.parametrize(
    "config",
    [
        b"",
        b"not JSON",
        b'{"a":' * 20_000,
        b"[]",
        b'{"model_type": "\\ud800"}',
        b'{"model_type": 5}',
        b'{"model_type": "llama", "num_hidden_layers": -1}',
        b'{"model_type": "llama", "num_hidden_layers": 1e999}',
        json.dumps(llama_config(max_position_embeddings="many")).encode(),
    ],
    ids=lambda config: repr(config[:40]),
)
def test_one_broken_model_spoils_nothing(plenty: Home, tmp_path: Path, config: bytes) -> None:
    add_model(plenty.paths.hub_cache, "org/broken", config=config)
    _add_tiny(plenty, "org/whole", tmp_path)
    broken, whole = plenty.get("/library")["models"]
    assert (broken["repo_id"], whole["repo_id"]) == ("org/broken", "org/whole")
    assert whole["assessment"]["fits"] is True
    assert broken["assessment"] is None or not broken["supported"]


def test_names_that_are_no_text(home: Home) -> None:
    cache = home.paths.hub_cache
    cache.mkdir(parents=True)
    for name in (b"models--org--\xff\xfe", b"models--org--\x1b[31m\n"):
        (cache / os.fsdecode(name)).mkdir()
    assert len(home.get("/library")["models"]) == 2
    assert len(home.get("/api/hub/local")["models"]) == 2
    assert home.get("/api/gc/plan")["superseded"] == []


def test_a_cache_that_cannot_be_read_is_told(home: Home) -> None:
    home.paths.hub_cache.parent.mkdir(parents=True)
    home.paths.hub_cache.write_text("no folder")
    for path in ("/library", "/api/hub/local", "/api/gc/plan"):
        answer = home.client.get(path)
        assert answer.status_code == 500
        assert "cannot be read" in answer.text
        assert "Traceback" not in answer.text
    assert home.client.get("/health").status_code == 200


def test_folders_of_models_are_part_of_it(tmp_path: Path, hub: FakeHub) -> None:
    make_model(tmp_path / "models" / "mine")
    settings = Settings(model_folders=(str(tmp_path / "models"),))
    with Home.opened(tmp_path / "home", hub.url, settings=settings) as home:
        assert [row["repo_id"] for row in home.get("/library")["models"]] == ["mine"]


def test_no_handler_imports_mlx() -> None:
    import subprocess
    import sys

    program = (
        "import sys; from commands.serve.app import create_app\n"
        "import core.gc.execute, core.download.search, core.download.job\n"
        "assert 'mlx' not in sys.modules and 'mlx_lm' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
