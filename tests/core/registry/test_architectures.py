"""What mlx-lm can load is read from its source as mlx-lm itself would find it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.registry.architectures import (
    Architectures,
    find_mlx_lm,
    read_architectures,
    stamp_of,
)


@pytest.fixture(scope="module")
def installed() -> Architectures:
    return read_architectures(find_mlx_lm())


def test_it_agrees_with_the_installed_mlx_lm(installed: Architectures) -> None:
    from importlib.metadata import version

    from mlx_lm.utils import MODEL_ARCHITECTURE_REMAPPING, MODEL_REMAPPING

    assert installed.version == version("mlx-lm")
    assert installed.renamed == MODEL_REMAPPING
    assert installed.renamed_classes == MODEL_ARCHITECTURE_REMAPPING
    assert MODEL_REMAPPING  # there is something to read


def test_every_module_of_mlx_lm_is_judged_rightly(installed: Architectures) -> None:
    package = find_mlx_lm()
    assert package is not None
    names = {path.stem for path in (package / "models").glob("*.py")} - {"__init__"}
    loadable = set(filter(_is_loadable, names))
    assert installed.types == loadable
    assert names - loadable  # parts that models share are no models


def test_what_every_module_cannot_do_without(installed: Architectures) -> None:
    from dataclasses import MISSING, fields
    from importlib import import_module

    assert len(installed.required) > 50
    for name in installed.types & installed.required.keys():
        keys = installed.required[name]
        arguments = import_module(f"mlx_lm.models.{name}").ModelArgs
        bare = [
            each.name
            for each in fields(arguments)
            if each.init and each.default is MISSING and each.default_factory is MISSING
        ]
        assert list(keys) == bare, name
        assert "from_dict" not in vars(arguments), name


def _is_loadable(name: str) -> bool:
    from importlib import import_module

    try:
        return hasattr(import_module(f"mlx_lm.models.{name}"), "Model")
    except SystemExit:  # it lacks a package, and ends the process
        return False


@pytest.mark.parametrize(
    ("model_type", "classes", "module"),
    [
        ("llama", ["LlamaForCausalLM"], "llama"),
        ("mistral", ["MistralForCausalLM"], "llama"),
        ("qwen2_5_vl", [], "qwen2_vl"),
        ("kimi_k2", [], "deepseek_v3"),
        ("bailing_hybrid", ["BailingMoeV3ForCausalLM"], "bailing_moe_v3"),
        ("bailing_hybrid", ["Other"], "bailing_hybrid"),
        ("solar_open", [], "solar_open"),
        ("cache", [], None),
        ("base", [], None),
        ("../utils", [], None),
        ("perceptron", ["Perceptron"], None),
    ],
)
def test_the_module_of_a_model(
    installed: Architectures, model_type: str, classes: list[str], module: str | None
) -> None:
    assert installed.module_for(model_type, classes) == module
    if module is not None:
        from mlx_lm.utils import _get_classes

        # The same module as mlx-lm would take.
        model_class, args_class = _get_classes({"model_type": model_type, "architectures": classes})
        assert f"mlx_lm.models.{module}" in (model_class.__module__, args_class.__module__)


def test_which_read_fp8(installed: Architectures) -> None:
    assert {"deepseek_v3", "ministral3", "minimax"} <= installed.read_fp8
    assert "mistral3" in installed.read_fp8  # it is ministral3 inside
    assert not {"llama", "qwen3", "gemma3"} & installed.read_fp8


def _package(folder: Path, utils: str, **modules: str) -> Path:
    (folder / "models").mkdir(parents=True)
    (folder / "utils.py").write_text(utils)
    (folder / "_version.py").write_text('__version__ = "9.9"\n')
    for name, text in modules.items():
        (folder / "models" / f"{name}.py").write_text(text)
    return folder


def test_a_later_mlx_lm_is_read_as_it_is(tmp_path: Path) -> None:
    package = _package(
        tmp_path,
        'import mlx.core\nMODEL_REMAPPING: dict[str, str] = {\n  "a": "b",  # why\n}\n'
        'MODEL_ARCHITECTURE_REMAPPING = {("a", "A"): "c"}\n',
        b="class Model(nn.Module):\n  pass\n",
        c="from .b import (\n    Model,\n    ModelArgs,\n)\n",
        d="from .b import Model as Other\nModel = Other\n",
        e="class ModelArgs:\n  pass\n# a Model\n",
        f="from .g import x\nclass Model: pass\n",
        g="weight_scale_inv\n",
    )
    known = read_architectures(package)
    assert known == Architectures(
        version="9.9",
        types=frozenset("bcdf"),
        read_fp8=frozenset("fg"),
        renamed={"a": "b"},
        renamed_classes={("a", "A"): "c"},
    )
    assert Architectures.from_plain(json.loads(json.dumps(known.to_plain()))) == known


@pytest.mark.parametrize(
    "utils", ["", "MODEL_REMAPPING = dict(a=b)", "def (", "MODEL_REMAPPING: X"]
)
def test_tables_that_cannot_be_read_are_empty(utils: str, tmp_path: Path) -> None:
    known = read_architectures(_package(tmp_path, utils, b="class Model: pass"))
    assert known.types == {"b"}
    assert known.renamed == {}


def test_no_mlx_lm_is_nothing(tmp_path: Path) -> None:
    assert read_architectures(None) == Architectures()
    assert read_architectures(tmp_path) == Architectures()


def test_an_upgrade_gives_another_stamp(tmp_path: Path) -> None:
    package = _package(tmp_path, "", b="class Model: pass")
    before = stamp_of(package)
    assert stamp_of(package) == before
    (package / "models" / "new.py").write_text("class Model: pass")
    added = stamp_of(package)
    assert added != before
    (package / "utils.py").write_text("MODEL_REMAPPING = {}")
    assert stamp_of(package) not in (before, added)
    assert stamp_of(None) != stamp_of(package)


def test_nothing_of_mlx_is_imported() -> None:
    code = (
        "import sys; from core.registry.architectures import *;"
        "assert read_architectures(find_mlx_lm()).types;"
        "print([m for m in sys.modules if m.split('.')[0] in ('mlx', 'mlx_lm')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
