"""The original that a record names: a name, whatever the record says."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import BadModelFiles, NotFound
from core.evals.record import Record, Source
from core.evals.run import Around, _original
from core.paths import Paths
from core.settings import merge_settings
from tests.tiny import make_model

_heard: list[str] = []


def _around(root: Path) -> Around:
    environ = {"HOME": str(root), "HF_HOME": str(root / "hf")}
    settings = merge_settings(config={}, environ={}, flags={}).values
    paths = Paths.from_environ(environ)
    return Around(settings=settings, paths=paths, environ=environ, on_note=_heard.append)


@pytest.mark.parametrize("revision", ["files-0123", "a" * 40])
@pytest.mark.parametrize("form", ["{folder}", "~/model", "../model", ".", "x/../../model", "a/b/c"])
def test_a_record_does_not_choose_a_folder(form: str, revision: str, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    source = Source(model_id=form.format(folder=folder), revision=revision)
    record = Record(source=source, recipe={}, calibration=None, table=None)
    with pytest.raises(BadModelFiles, match="names the folder"):
        _original(record, _around(tmp_path))


def test_a_name_that_is_not_here(tmp_path: Path) -> None:
    source = Source(model_id="org/name", revision="a" * 40)
    record = Record(source=source, recipe={}, calibration=None, table=None)
    with pytest.raises(NotFound, match="is not on this machine"):
        _original(record, _around(tmp_path))
