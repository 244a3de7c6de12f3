"""Four layers, one merge, and every value knows its source."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import MlxbunError, StoreCorrupt, UsageProblem
from core.settings import Settings, merge_settings, read_config, write_config


def merge(**layers: Any) -> Any:
    return merge_settings(**({"config": {}, "environ": {}, "flags": {}} | layers))


def test_each_layer_overrides_the_one_before() -> None:
    layers: dict[str, Any] = {}
    seen = [(merge().values.port, merge().sources["port"])]
    for name, value in (
        ("config", {"port": 1}),
        ("environ", {"MLXBUN_PORT": "2"}),
        ("flags", {"port": 3}),
    ):
        layers[name] = value
        merged = merge(**layers)
        seen.append((merged.values.port, merged.sources["port"]))
    assert seen == [(8080, "default"), (1, "config file"), (2, "environment"), (3, "flag")]


def test_a_flag_that_is_not_given_overrides_nothing() -> None:
    assert merge(config={"batch": 2}, flags={"batch": None}).values.batch == 2


def test_an_empty_variable_counts_as_not_set() -> None:
    assert merge(environ={"MLXBUN_PORT": ""}).sources["port"] == "default"


def test_a_zero_is_a_value() -> None:
    merged = merge(environ={"MLXBUN_TEMPERATURE": "0"})
    assert merged.values.temperature == 0.0
    assert merged.sources["temperature"] == "environment"


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ({"config": {"prot": 1}}, "no setting named 'prot'"),
        ({"config": {"port": "x"}}, "port in the config file must be a number"),
        ({"config": {"port": True}}, "port in the config file must be a whole number"),
        ({"config": {"port": 1.5}}, "a whole number from 0 to 65535, not 1.5"),
        ({"environ": {"MLXBUN_BATCH": "0"}}, "MLXBUN_BATCH must be a whole number from 1"),
        ({"environ": {"MLXBUN_TOP_P": "nan"}}, "MLXBUN_TOP_P must be a number from 0 to 1"),
        ({"environ": {"MLXBUN_MEMORY_BUDGET": "8GB"}}, "MLXBUN_MEMORY_BUDGET must be a number"),
        ({"flags": {"dequantize": "maybe"}}, "--dequantize must be one of auto, on, off"),
        ({"flags": {"memory_budget": -1.0}}, "--memory-budget must be a number"),
        ({"config": {"host": ""}}, "host in the config file must be a text"),
        ({"config": {"host": ["a"]}}, "host in the config file must be a text"),
    ],
)
def test_a_bad_value_names_its_place(layers: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageProblem) as problem:
        merge(**layers)
    assert words in problem.value.message


@pytest.mark.parametrize(
    ("layers", "source"),
    [
        ({"config": {"model_folders": ["/a b", "~/c"]}}, "config file"),
        ({"config": {"model_folders": "/a b:~/c"}}, "config file"),
        ({"environ": {"MLXBUN_MODEL_FOLDERS": "/a b:~/c:"}}, "environment"),
        ({"flags": {"model_folders": ["/a b", "~/c"]}}, "flag"),
    ],
)
def test_a_list_of_folders_in_each_layer(layers: dict[str, Any], source: str) -> None:
    merged = merge(**layers)
    assert merged.values.model_folders == ("/a b", "~/c")
    assert merged.sources["model_folders"] == source


@pytest.mark.parametrize("wrong", [3, ["/a", 3], ["models"], "a:/b", {"a": 1}, "/a\0b", [[]]])
def test_what_is_no_list_of_folders(wrong: object) -> None:
    with pytest.raises(UsageProblem, match="a list of folders, each from / or ~ on"):
        merge(config={"model_folders": wrong})


def test_a_list_of_folders_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    write_config(path, "model_folders", ("/a b", "~/c"))
    assert merge(config=read_config(path)).values.model_folders == ("/a b", "~/c")
    write_config(path, "model_folders", ())
    assert merge(config=read_config(path)).values.model_folders == ()


@given(
    st.dictionaries(
        st.sampled_from(list(Settings.__dataclass_fields__)),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.none()),
    )
)
def test_any_config_merges_or_is_a_usage_problem(config: dict[str, Any]) -> None:
    problem: UsageProblem | None = None
    try:
        merge(config=config)
    except UsageProblem as refusal:
        problem = refusal
    assert problem is None or "in the config file" in problem.message


def test_a_missing_file_is_an_empty_one(tmp_path: Path) -> None:
    assert read_config(tmp_path / "none.toml") == {}


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe", b"[["])
def test_a_broken_file_is_named_and_not_overwritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"config\.toml cannot be read"):
        read_config(path)
    with pytest.raises(StoreCorrupt):
        write_config(path, "port", 1)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("core.settings.atomic_write", full)
    with pytest.raises(MlxbunError, match=r"config\.toml cannot be written: No space left"):
        write_config(tmp_path / "config.toml", "port", 1)


def test_writing_keeps_comments_and_order(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    write_config(path, "port", 9000)
    path.write_text("# mine\nport = 9000 # why\nbatch = 2\n")
    write_config(path, "port", 9001)
    write_config(path, "temperature", 0.5)
    write_config(path, "batch", None)
    assert path.read_text() == "# mine\nport = 9001 # why\ntemperature = 0.5\n"
    assert list(path.parent.iterdir()) == [path]
