"""What is offered for the values of arguments and options."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from commands._shared.completion import Completer, dequantize, kv_bits, prefill, quantizations
from core.engine.adapters import adapter_folders
from core.fit.machines import find_skus
from core.paths import Paths
from core.registry.selection import quantization_test
from core.settings import Settings, choices_of
from mlxbun_cli.completion.command import complete
from scripts.docs.library import RIVER, add_adapter
from tests.caches import add_model
from tests.completions.conftest import ODD_NAMES, REPOSITORIES, SESSIONS
from tests.processes import environ_of

QWEN = REPOSITORIES[0]


def offered(environ: Mapping[str, str], *words: str) -> dict[str, str]:
    """Return what fish would get: every candidate with its help."""
    lines = complete("fish", words, environ)[1:]
    return {value: told for value, _, told in (line.partition("\t") for line in lines)}


def beside(environ: Mapping[str, str], *words: str) -> str:
    return complete("fish", words, environ)[0]


@pytest.fixture
def empty(tmp_path: Path) -> dict[str, str]:
    return environ_of(tmp_path / "home")


@pytest.mark.parametrize("verb", ["serve", "chat", "generate", "bench", "fit", "ls"])
def test_models_that_run_here(environ: Mapping[str, str], verb: str) -> None:
    assert {*REPOSITORIES, *ODD_NAMES} <= set(offered(environ, verb, ""))


def test_names_that_nobody_could_read_are_left_out(environ: Mapping[str, str]) -> None:
    assert all(name.isprintable() for name in offered(environ, "serve", ""))


def test_a_part_of_a_name_is_enough(environ: Mapping[str, str]) -> None:
    assert list(offered(environ, "serve", "QWEN3-8")) == [REPOSITORIES[1]]
    assert list(offered(environ, "serve", "8b-4")) == [REPOSITORIES[1]]
    assert list(offered(environ, "gc", "SMOLV")) == ["other/SmolVLM"]


@pytest.mark.parametrize(
    ("typed", "fit"),
    [("mlx-", "start"), ("qwen3", "inside"), ("smol", "scattered"), ("smolv", "inside")],
)
def test_how_candidates_fit(environ: Mapping[str, str], typed: str, fit: str) -> None:
    assert complete("zsh", ["serve", typed], environ)[0].split("\t")[1] == fit


def test_a_model_that_does_not_run_is_offered_where_it_need_not(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    hub = tmp_path / "home" / ".cache" / "huggingface" / "hub"
    add_model(hub, "org/broken", weights={"model.safetensors": b"cut"})
    assert list(offered(environ, "serve", "")) == ["starter"]
    assert list(offered(environ, "gc", "")) == ["org/broken"]
    (hub / "models--org--broken" / "blobs" / "x.incomplete").touch()
    assert offered(environ, "download", "org") == {"org/broken": "The download is not finished."}


def test_snapshots_behind_an_at(environ: Mapping[str, str]) -> None:
    found = offered(environ, "serve", f"{QWEN}@")
    commit = "b" * 12
    assert found[f"{QWEN}@{commit}"] == "v2/beta"
    assert found[f"{QWEN}@v2/beta"] == commit
    assert f"{QWEN}@main" in found
    assert set(offered(environ, "download", f"{QWEN}@")) == set(found)
    assert offered(environ, "serve", "no/such@") == {}


def test_the_starter_where_there_is_no_model(empty: Mapping[str, str]) -> None:
    assert offered(empty, "serve", "") == {"starter": "A first model."}
    assert offered(empty, "download", "") == {"starter": "A first model."}


@pytest.mark.parametrize("typed", ["", ".", "./x", "/", "~/", "nothing-fits"])
def test_a_model_may_be_a_folder(empty: Mapping[str, str], typed: str) -> None:
    assert beside(empty, "serve", typed) == "folders"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["upload", ""], "files"),
        (["bench", "--plot", ""], "files"),
        (["serve", "--blas", "/"], "files"),
        (["config", "set", "blas", "/"], "files"),
        (["config", "set", "model_folders", ""], "folders"),
        (["config", "set", "model", "/"], "folders"),
        (["ls", "--model-folders", ""], "folders"),
        (["serve", "--port", ""], "nothing"),
        (["generate", "model", ""], "nothing"),
        (["ls", "/"], "nothing"),
    ],
)
def test_paths_where_a_path_is_wanted(
    environ: Mapping[str, str], words: list[str], what: str
) -> None:
    assert beside(environ, *words) == what


def test_servers_that_run(environ: Mapping[str, str], server: int) -> None:
    name = REPOSITORIES[2]
    found = {"9123": f"{name} (port)", str(server): f"{name} (pid)"}
    assert offered(environ, "stop", "") == found
    assert offered(environ, "stop", "9123") == {"9123": f"{name} (port)"}
    assert offered(environ, "stop", "smol") == {name: "http://127.0.0.1:9123"}


def test_looking_for_servers_removes_nothing(empty: Mapping[str, str]) -> None:
    stale = Path(empty["HOME"]) / ".mlxbun" / "run" / "1.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    assert offered(empty, "stop", "") == {}
    assert stale.exists()


def test_conversations_the_latest_first(environ: Mapping[str, str]) -> None:
    assert list(offered(environ, "chat", "--resume", "")) == [*reversed(SESSIONS)]
    assert list(offered(environ, "chat", "--resume", "SKY")) == [SESSIONS[1]]


@pytest.mark.parametrize(
    "words", [("serve", "--adapter"), ("adapters", "inspect"), ("fuse", "m", "--adapter")]
)
def test_adapters_that_are_kept(tmp_path: Path, words: tuple[str, ...]) -> None:
    home = environ_of(tmp_path / "home")
    kept = adapter_folders(Paths.from_environ(home).cache)[0]
    kept.mkdir(parents=True)
    add_adapter(kept / "poems")
    assert offered(home, *words, "") == {"poems": RIVER.name}


def test_gguf_files_in_the_folder_that_was_begun(
    empty: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files" / "sub").mkdir(parents=True)
    for name in ("a.gguf", "B.GGUF", "notes.txt", "sub/c.gguf"):
        (tmp_path / "files" / name).touch()
    monkeypatch.chdir(tmp_path / "files")
    assert list(offered(empty, "import", "")) == ["B.GGUF", "a.gguf"]
    assert list(offered(empty, "import", "sub/")) == ["sub/c.gguf"]
    assert list(offered(empty, "import", f"{tmp_path}/files/a")) == [f"{tmp_path}/files/a.gguf"]
    assert offered(empty, "import", "none/") == {}
    assert beside(empty, "import", "none/") == "files"
    assert list(offered(empty, "import", "a.gguf", "--requantize", "")) == [
        "2",
        "3",
        "4",
        "5",
        "6",
        "8",
    ]


def test_settings_with_their_meanings(environ: Mapping[str, str]) -> None:
    found = offered(environ, "config", "set", "")
    assert list(found) == list(Settings.__dataclass_fields__)
    assert found["port"].startswith("Port that serve listens on")


@pytest.mark.parametrize("name", Settings.__dataclass_fields__)
def test_values_of_settings_where_there_are_few(environ: Mapping[str, str], name: str) -> None:
    found = offered(environ, "config", "set", name, "")
    assert set(choices_of(name)) <= set(found)
    if name in ("port", "batch", "temperature", "keep_alive"):
        assert found == {}


def test_the_model_that_is_set(environ: Mapping[str, str]) -> None:
    assert QWEN in offered(environ, "config", "set", "model", "")


def values(completer: Completer) -> list[str]:
    return [one if isinstance(one, str) else one[0] for one in completer()]


def test_an_option_offers_what_its_setting_takes() -> None:
    assert tuple(values(prefill)) == choices_of("prefill")
    assert tuple(values(dequantize)) == choices_of("dequantize")


def test_quantizations_are_those_that_ls_takes() -> None:
    assert all(quantization_test(word) for word in values(quantizations))


def test_macs_are_those_that_fit_knows(environ: Mapping[str, str]) -> None:
    chips = list(offered(environ, "fit", "--sku", ""))
    assert "M1 Ultra" in chips
    sized = list(offered(environ, "fit", "--sku", "M4 Max "))
    assert sized
    assert all(find_skus(name) for name in [*chips, *sized])


def test_words_of_small_sets(environ: Mapping[str, str]) -> None:
    assert values(kv_bits) == ["8", "4"]
    assert list(offered(environ, "fit", "--kv-bits", "")) == ["8", "4"]
    assert list(offered(environ, "upload", "x", "--type", "")) == ["model", "dataset"]
    assert list(offered(environ, "--install-completion", "")) == ["bash", "zsh", "fish"]
    assert list(offered(environ, "serve", "--host", "127")) == ["127.0.0.1"]
    assert list(offered(environ, "ls", "--type", "")) == ["llama"]


def test_history_is_the_first_word_of_bench_alone(environ: Mapping[str, str]) -> None:
    assert list(offered(environ, "bench", "hist")) == ["history"]
    assert QWEN in offered(environ, "bench", "history", "")
    assert offered(environ, "bench", QWEN, "") == {}


def test_a_model_that_is_gone_is_not_offered(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    snapshot = add_model(tmp_path / "home" / ".cache" / "huggingface" / "hub", "org/name")
    assert "org/name" in offered(environ, "serve", "")
    assert (tmp_path / "home" / ".cache" / "mlxbun" / "library.db").exists()
    shutil.rmtree(snapshot)
    assert "org/name" not in offered(environ, "serve", "")


def test_folders_of_models_may_be_in_the_environment(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    model = add_model(tmp_path / "elsewhere", "org/name")
    shutil.copytree(model, tmp_path / "models" / "mine")
    environ["MLXBUN_MODEL_FOLDERS"] = str(tmp_path / "models")
    assert list(offered(environ, "serve", "")) == ["mine"]


def test_layers_to_train_follow_each_other(empty: dict[str, str]) -> None:
    assert "q_proj" in offered(empty, "train", "tiny", "--target-modules", "")
    found = offered(empty, "train", "tiny", "--target-modules", "q_proj,k")
    assert list(found) == ["q_proj,k_proj"]


def test_a_base_that_moves_the_cursor_is_made_harmless(empty: dict[str, str]) -> None:
    kept = adapter_folders(Paths.from_environ(empty).cache)[0] / "one"
    kept.parent.mkdir(parents=True)
    add_adapter(kept)
    config = json.loads((kept / "adapter_config.json").read_text())
    (kept / "adapter_config.json").write_text(json.dumps({**config, "model": "a\x1b[2Jb"}))
    assert offered(empty, "serve", "tiny", "--adapter", "") == {"one": "a\ufffd[2Jb"}
