"""Which vault is meant, what its caches are called, and where programs may set one up."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.errors import BadRequest, VaultMissing
from core.memory.opening import open_memory, root_for_program, vault_id, vault_root
from core.paths import Paths


def _paths(home: Path, **environ: str) -> Paths:
    return Paths.from_environ({"HOME": str(home), **environ})


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "wiki"
    (root / "articles").mkdir(parents=True)
    (root / ".git").mkdir()
    return root


def test_the_option_wins_over_the_variable_and_that_over_the_home(tmp_path: Path) -> None:
    plain, named = _paths(tmp_path), _paths(tmp_path, MLXBUN_WIKI="~/notes")
    assert vault_root(plain) == tmp_path / ".mlxbun" / "wiki"
    assert vault_root(named) == Path("~/notes").expanduser()
    assert vault_root(named, Path("here")) == Path.cwd() / "here"


def test_no_vault_is_one_sentence_and_a_command(tmp_path: Path) -> None:
    with pytest.raises(VaultMissing) as caught:
        open_memory(_paths(tmp_path))
    assert caught.value.message == f"There is no memory vault at {tmp_path}/.mlxbun/wiki."
    assert caught.value.hint is not None
    assert "mlxbun memory init" in caught.value.hint
    assert not (tmp_path / ".mlxbun").exists()


def test_caches_of_a_vault_have_a_folder_of_their_own(tmp_path: Path, vault: Path) -> None:
    memory = open_memory(_paths(tmp_path), vault)
    folder = memory.folder
    word = (vault / ".git" / "mlxbun" / "id").read_text().strip()
    assert folder == tmp_path / ".cache" / "mlxbun" / "memory" / word
    assert open_memory(_paths(tmp_path), vault).folder == memory.folder


def test_processes_that_open_it_at_once_agree(vault: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(vault_id, [vault] * 32))) == 1
    assert [path.name for path in (vault / ".git" / "mlxbun").iterdir()] == ["id"]


@pytest.mark.parametrize("held", ["", "../../../../etc", "x" * 1000, "\0"])
def test_a_word_that_is_none_is_replaced(vault: Path, held: str) -> None:
    file = vault / ".git" / "mlxbun" / "id"
    file.parent.mkdir()
    file.write_text(held)
    assert file.read_text().strip() != vault_id(vault)
    assert file.read_text().strip() == vault_id(vault) != held


def test_where_no_word_can_be_written_the_path_decides(vault: Path, tmp_path: Path) -> None:
    (vault / ".git" / "mlxbun").write_text("a file is in the way")
    assert vault_id(vault) == vault_id(vault)
    other = tmp_path / "other"
    other.mkdir()
    assert vault_id(vault) != vault_id(other)


def test_programs_make_vaults_in_two_places_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, home = tmp_path / "tmp", tmp_path / "home"
    temporary.mkdir()
    home.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    paths = _paths(home)
    wiki = home / ".mlxbun" / "wiki"
    assert root_for_program(str(wiki), paths) == wiki
    assert root_for_program(str(wiki / "inner"), paths) == wiki / "inner"
    assert root_for_program(str(temporary / "x"), paths) == temporary / "x"
    (temporary / "out").symlink_to(tmp_path)
    (temporary / "circle").symlink_to(temporary / "circle")
    for refused in (
        str(temporary),
        str(temporary / ".."),
        str(temporary / "out" / "x"),
        str(wiki / ".." / "other"),
        f"{wiki}er",
        str(home),
        "relative",
        "/",
        "/" + "x" * 5000,
        "a\0b",
        f"{temporary}/a\0b",
    ):
        with pytest.raises(BadRequest) as caught:
            root_for_program(refused, paths)
        assert caught.value.field == "path"


def test_a_vault_behind_a_link_is_the_one_it_leads_to(tmp_path: Path, vault: Path) -> None:
    (tmp_path / "link").symlink_to(vault)
    assert open_memory(_paths(tmp_path), tmp_path / "link").root == Path(os.path.realpath(vault))
