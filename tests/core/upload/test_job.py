"""Uploads that go well: what arrives, what is not sent twice, and what is told."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from core.errors import UploadFailed, UsageProblem
from core.upload import job
from core.upload.card import BEGIN, END
from core.upload.events import FileSent, Made, Moved, Noted, Planned, Present
from core.upload.plan import UploadPlan
from tests.caches import add_model
from tests.core.upload.conftest import MODEL, REPO, WEIGHTS, Desk, adapter_files, fill
from tests.fakehub import weights
from tests.processes import wait_until


def test_a_model(desk: Desk) -> None:
    done = desk.upload()
    held = desk.hub.files(REPO)
    card = desk.plan().card.text
    assert card is not None
    assert held == {
        **MODEL, "README.md": card.encode(), ".gitattributes": held[".gitattributes"],
    }  # fmt: skip
    assert done.url == f"{desk.hub.url}/{REPO}"
    assert done.commit == desk.hub.repos[REPO].commit
    assert done.commit_url == f"{done.url}/commit/{done.commit}"
    assert (done.changed, done.sent_bytes) == (True, len(WEIGHTS))
    assert desk.hub.received_bytes == len(WEIGHTS)
    (commit,) = desk.hub.commits
    assert commit.message == "Upload model with mlxbun"
    assert set(commit.names) == {*MODEL, "README.md"}
    assert not (desk.folder / "README.md").exists()
    assert not desk.hub.repos[REPO].private


def test_what_is_told(desk: Desk) -> None:
    desk.upload()
    first, made, *rest = [event for event in desk.events if not isinstance(event, Moved)]
    assert isinstance(first, Planned)
    assert made == Made(what="repository", url=f"{desk.hub.url}/{REPO}", private=False)
    assert rest == [FileSent(name="model.safetensors", size=len(WEIGHTS))]
    moved = desk.told(Moved)
    total = sum(map(len, MODEL.values()))
    for stage in ("reading", "sending"):
        last = [event.transfer for event in moved if event.stage == stage][-1]
        assert (last.done, last.total, last.files_done, last.files_total) == (total, total, 3, 3)
        assert last.moving == ()


def test_nothing_is_sent_twice(desk: Desk) -> None:
    first = desk.upload()
    desk.hub.received.clear()
    desk.events.clear()
    again = desk.upload()
    assert (again.commit, again.changed, again.sent_bytes) == (first.commit, False, 0)
    assert desk.hub.received_bytes == 0
    assert len(desk.hub.commits) == 1
    assert desk.told(Present) == [Present(files=1, size=len(WEIGHTS))]


def test_only_what_changed_is_committed(desk: Desk) -> None:
    desk.upload()
    fill(desk.folder, {"config.json": MODEL["config.json"] + b" "})
    desk.upload(message="Mend the config")
    assert desk.hub.commits[-1].message == "Mend the config"
    assert desk.hub.commits[-1].names == ("config.json",)
    assert desk.hub.received_bytes == len(WEIGHTS)


def test_weights_that_change_are_hashed_anew(desk: Desk) -> None:
    desk.upload()
    file = desk.folder / "model.safetensors"
    status = file.stat()
    other = weights(300_000, seed=9)
    assert len(other) == len(WEIGHTS)
    file.write_bytes(other)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))  # as `cp -p` or rsync would
    desk.upload()
    assert desk.hub.files(REPO)["model.safetensors"] == other
    assert desk.hub.wrong == []


def test_an_adapter_with_its_checkpoints_left_out(desk: Desk, tmp_path: Path) -> None:
    files = adapter_files()
    more = {"0000100_adapters.safetensors": weights(5_000), "optimizer.safetensors": b"x"}
    folder = fill(tmp_path / "adapter", {**files, **more})
    desk.upload(source=folder)
    assert set(desk.hub.files(REPO)) == {*files, "README.md", ".gitattributes"}
    desk.upload(source=folder, include=("0000100_*",))
    assert "0000100_adapters.safetensors" in desk.hub.files(REPO)


def test_a_data_set_and_a_file_of_data(desk: Desk, tmp_path: Path) -> None:
    folder = fill(tmp_path / "d", {"train.jsonl": b'{"text": "a"}\n', "sub/x.csv": b"a\n1\n"})
    done = desk.upload(source=folder, to="org/data")
    held = desk.hub.files("datasets:org/data")
    assert set(held) == {"train.jsonl", "sub/x.csv", "README.md", ".gitattributes"}
    assert done.url == f"{desk.hub.url}/datasets/org/data"
    assert "org/data" not in desk.hub.repos
    desk.upload(source=folder / "train.jsonl", to="org/one")
    assert "train.jsonl" in desk.hub.files("datasets:org/one")


def test_a_snapshot_is_followed_to_its_content(desk: Desk) -> None:
    snapshot = add_model(
        desk.paths.hub_cache, "org/base", config=MODEL["config.json"],
        weights={"model.safetensors": WEIGHTS},
    )  # fmt: skip
    desk.upload(source=snapshot)
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS


def test_a_branch_is_made(desk: Desk) -> None:
    desk.upload()
    fill(desk.folder, {"tokenizer.json": b"[]"})
    done = desk.upload(revision="v2")
    assert desk.told(Made)[-1].what == "branch"
    assert desk.hub.files(REPO, "v2")["tokenizer.json"] == b"[]"
    assert desk.hub.files(REPO)["tokenizer.json"] == MODEL["tokenizer.json"]
    assert done.changed
    again = desk.upload(revision="v2")
    assert not again.changed
    same = desk.upload(revision="v2-again", card=False)
    assert same.changed  # it begins as main, which has another tokenizer
    unchanged = desk.upload(revision="v2-again", card=False)
    assert not unchanged.changed
    assert desk.hub.received_bytes == len(WEIGHTS)


def test_a_branch_of_a_new_repository(desk: Desk) -> None:
    desk.upload(revision="v2")
    assert set(desk.hub.files(REPO)) == {".gitattributes"}
    assert desk.hub.files(REPO, "v2")["model.safetensors"] == WEIGHTS


def test_private_repositories(desk: Desk) -> None:
    desk.upload(private=True)
    assert desk.hub.repos[REPO].private
    assert desk.told(Made)[0].private
    desk.upload(private=True)
    desk.upload()
    assert desk.hub.repos[REPO].private
    desk.hub.repos[REPO].private = False
    with pytest.raises(UsageProblem, match="is there already and is public"):
        desk.upload(private=True)
    assert len(desk.hub.commits) == 1


def test_a_hub_that_makes_a_public_repository_instead(desk: Desk) -> None:
    desk.hub.knows_private = False
    with pytest.raises(UploadFailed, match="but is not private: nothing was uploaded"):
        desk.upload(private=True)
    assert set(desk.hub.files(REPO)) == {".gitattributes"}
    assert desk.hub.received_bytes == 0


def test_parts_and_verification(desk: Desk) -> None:
    desk.hub.part_bytes, desk.hub.verify = 70_000, True
    desk.upload()
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS
    assert desk.hub.wrong == []
    assert sum("PUT /part/" in line for line in desk.hub.log) == 5
    assert desk.hub.log.count("POST /verify") == 1


def test_several_large_files_at_once(desk: Desk) -> None:
    names = [f"model-{n:05}-of-00006.safetensors" for n in range(1, 7)]
    (desk.folder / "model.safetensors").unlink()
    fill(desk.folder, {name: weights(40_000, seed=n) for n, name in enumerate(names)})
    desk.upload()
    assert {event.name for event in desk.told(FileSent)} == set(names)
    assert desk.hub.wrong == []


def test_two_files_with_one_content(desk: Desk) -> None:
    fill(desk.folder, {"model-copy.safetensors": WEIGHTS})
    done = desk.upload()
    assert done.sent_bytes == len(WEIGHTS)
    assert desk.hub.files(REPO)["model-copy.safetensors"] == WEIGHTS
    assert desk.told(Moved)[-1].transfer.files_done == 4


def test_many_files_of_data_go_in_several_commits(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_COMMIT_FILES", 10)
    folder = fill(tmp_path / "d", {f"{n:03}.jsonl": b'{"n": %d}\n' % n for n in range(25)})
    done = desk.upload(source=folder, message="Data")
    messages = [commit.message for commit in desk.hub.commits]
    assert messages == [f"Data (part {n} of 3)" for n in (1, 2, 3)]
    assert "README.md" in desk.hub.commits[0].names
    assert done.commit == desk.hub.repos[f"datasets:{REPO}"].commit
    assert len(desk.hub.files(f"datasets:{REPO}")) == 27


def test_data_that_would_make_a_commit_too_large(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "_COMMIT_BYTES", 100)
    folder = fill(tmp_path / "d", {f"{n}.jsonl": b'"' + b"x" * 58 + b'"' for n in range(4)})
    assert [len(group) for group in job.groups_of(desk.plan(source=folder))] == [1, 1, 1, 1]
    assert len(list(job.groups_of(_model_plan(desk)))) == 1


def _model_plan(desk: Desk) -> UploadPlan:
    fill(desk.folder, {f"{n}.json": b"{}" for n in range(300)})
    return desk.plan()


def test_what_the_repository_ignores_is_told(desk: Desk) -> None:
    desk.hub.ignored = {"tokenizer.json"}
    desk.upload()
    assert desk.told(Noted)[0].text == (
        "tokenizer.json is left out: the repository's .gitignore says so."
    )
    assert "tokenizer.json" not in desk.hub.files(REPO)


# Cards that are on the Hub already


def test_somebodys_card_on_the_hub_stays(desk: Desk) -> None:
    desk.hub.add(REPO, {"README.md": b"# Mine\n"})
    desk.upload()
    assert desk.hub.files(REPO)["README.md"] == b"# Mine\n"
    assert desk.told(Noted) == [
        Noted(text="The repository's README.md is somebody's own: it stays as it is.")
    ]
    fill(desk.folder, {"README.md": f"{BEGIN}\nold\n{END}\n".encode()})
    desk.upload()
    assert desk.hub.files(REPO)["README.md"] == b"# Mine\n"


def test_what_was_added_around_our_part_stays(desk: Desk) -> None:
    desk.upload()
    held = desk.hub.repos[REPO].files
    held["README.md"] = b"Mine\n" + held["README.md"].replace(b"300k", b"many") + b"More\n"
    desk.upload()
    text = held["README.md"].decode()
    assert text.startswith("Mine\n---\n")
    assert text.endswith(f"{END}\nMore\n")
    assert "300k" in text


def test_the_block_that_the_hub_made_is_kept(desk: Desk) -> None:
    desk.hub.add(REPO, {"README.md": b"---\nlicense: mit\n---\n"})
    desk.upload()
    text = desk.hub.files(REPO)["README.md"].decode()
    assert text.startswith(f"---\nlicense: mit\n---\n\n{BEGIN}\n")


def test_a_card_in_the_folder_goes_before_ours_on_the_hub(desk: Desk) -> None:
    desk.upload()
    fill(desk.folder, {"README.md": b"# Mine\n"})
    desk.upload()
    assert desk.hub.files(REPO)["README.md"] == b"# Mine\n"


def test_the_card_is_kept_where_that_was_asked_for(desk: Desk) -> None:
    desk.upload(keep_card=True)
    kept = (desk.folder / "README.md").read_bytes()
    assert kept == desk.hub.files(REPO)["README.md"]
    again = desk.upload(keep_card=True)
    assert not again.changed
    assert {path.name for path in desk.folder.iterdir()} == {*MODEL, "README.md"}


# What the process is left with


def test_the_library_is_left_as_it_was(desk: Desk) -> None:
    logger = logging.getLogger("huggingface_hub")
    level, xet = logger.level, constants.HF_HUB_DISABLE_XET
    telemetry = constants.HF_HUB_DISABLE_TELEMETRY
    desk.upload()
    assert (logger.level, constants.HF_HUB_DISABLE_XET) == (level, xet)
    assert telemetry == constants.HF_HUB_DISABLE_TELEMETRY
    assert "request" not in vars(huggingface_hub.get_session())


def test_the_hub_is_asked_nothing_else(desk: Desk) -> None:
    desk.upload()
    known = ("/api/models/me/name", "/api/repos/create", "/api/validate-yaml", "/object/",
             "/me/name.git/info/lfs/objects/batch")  # fmt: skip
    assert [line for line in desk.hub.log if not line.split()[1].startswith(known)] == []


def test_threads_end(desk: Desk) -> None:
    before = threading.active_count()
    desk.upload()
    # Those of the fake hub end once they see that their connections were closed.
    wait_until(lambda: threading.active_count() <= before)


def test_a_watcher_that_fails_ends_it(desk: Desk) -> None:
    def fail(event: object, /) -> None:
        if isinstance(event, FileSent):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job.upload(desk.plan(), paths=desk.paths, environ=desk.environ, on_event=fail)
    assert desk.hub.commits == []


def test_hashes_are_those_of_the_contents(desk: Desk) -> None:
    desk.upload()
    (oid,) = desk.hub.objects
    assert oid == hashlib.sha256(WEIGHTS).hexdigest()
    assert json.loads(desk.hub.files(REPO)["config.json"])["model_type"] == "llama"
