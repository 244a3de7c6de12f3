"""`/api/gc/plan` and `/api/gc/execute`: what was shown goes, and nothing else."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from commands.serve.wire.gc import done_body
from core.download.ledger import Ledger
from core.gc.execute import Mishap, Result
from core.gc.plan import Item, Kind
from tests.caches import add_model, safetensors
from tests.commands.serve.home import Home
from tests.processes import mlxbun

OLD, MAIN, NEWER = "a" * 40, "b" * 40, "c" * 40
NOTHING = {"ok": True, "superseded": [], "reclaim_bytes": 0}


def _weights(size: int) -> dict[str, bytes]:
    return {"model.safetensors": safetensors(padding=size)}


@pytest.fixture
def full(home: Home) -> Home:
    """A cache with an old snapshot, an orphan, and what is not shown over HTTP."""
    hub = home.paths.hub_cache
    add_model(hub, "org/one", commit=OLD, weights=_weights(5000), ref=None)
    add_model(hub, "org/one", commit=MAIN, weights=_weights(6000))
    add_model(hub, "org/two")
    blobs = hub / "models--org--two" / "blobs"
    orphan = b"o" * 700
    (blobs / hashlib.sha256(orphan).hexdigest()).write_bytes(orphan)
    (blobs / f"{'d' * 64}.incomplete").write_bytes(b"half")
    lock = hub / ".locks" / "models--org--two" / f"{'e' * 64}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    for path in hub.rglob("*"):
        _age(path, 40)
    return home


def _age(path: Path, days: float) -> None:
    then = time.time() - days * 86_400
    os.utime(path, (then, then), follow_symlinks=False)


def _tree(home: Home) -> set[str]:
    hub = home.paths.hub_cache
    return {str(path.relative_to(hub)) for path in hub.rglob("*")}


def _plan(home: Home) -> dict[str, Any]:
    plan: dict[str, Any] = home.get("/api/gc/plan")
    return plan


def test_nothing_to_do(home: Home) -> None:
    plan = _plan(home)
    assert {key: plan[key] for key in NOTHING} == NOTHING
    done = home.post("/api/gc/execute", {"yes": True})
    assert done == {"ok": True, "snapshots": 0, "blobs": 0, "reclaimed_bytes": 0, "skipped": 0}


def test_a_plan_is_shown_and_nothing_deleted(full: Home) -> None:
    before = _tree(full)
    plan = _plan(full)
    assert list(plan) == ["ok", "superseded", "reclaim_bytes", "plan"]
    one, two = plan["superseded"]
    assert list(one) == [
        "repo_id", "prune_snapshots", "skipped_snapshots", "dead_blobs", "reclaim_bytes"
    ]  # fmt: skip
    assert one["repo_id"] == "org/one"
    assert (one["prune_snapshots"], one["skipped_snapshots"], one["dead_blobs"]) == (1, 0, 1)
    assert one["reclaim_bytes"] == len(_weights(5000)["model.safetensors"])
    assert (two["prune_snapshots"], two["dead_blobs"], two["reclaim_bytes"]) == (0, 1, 700)
    assert plan["reclaim_bytes"] == one["reclaim_bytes"] + 700
    assert _tree(full) == before
    assert _plan(full) == plan


def test_what_was_shown_goes_and_the_rest_stays(full: Home) -> None:
    before, plan = _tree(full), _plan(full)
    done = full.post("/api/gc/execute", {"yes": True})
    assert done == {
        "ok": True,
        "snapshots": 1,
        "blobs": 2,
        "reclaimed_bytes": plan["reclaim_bytes"],
        "skipped": 0,
    }
    gone = before - _tree(full)
    assert {path for path in gone if "snapshots" in path} == {
        f"models--org--one/snapshots/{OLD}{end}"
        for end in ("", "/config.json", "/model.safetensors")
    }
    assert len([path for path in gone if "/blobs/" in path]) == 2
    left = _tree(full)
    assert any(path.endswith(".incomplete") for path in left)
    assert any(path.endswith(".lock") and ".locks/models" in path for path in left)
    assert _plan(full)["superseded"] == []
    names = [row["repo_id"] for row in full.get("/library")["models"]]
    assert names == ["org/one", "org/two"]
    assert "org/one" in mlxbun("ls", environ=full.environ).stdout


@pytest.mark.parametrize("body", [{}, {"yes": False}, {"yes": 1}, {"yes": "true"}, {"yes": None}])
def test_without_a_yes_nothing_goes(full: Home, body: dict[str, Any]) -> None:
    before = _tree(full)
    answer = full.client.post("/api/gc/execute", json=body)
    assert answer.status_code == 400
    assert answer.json() == {"ok": False, "error": 'pass {"yes": true} to confirm deletion'}
    assert _tree(full) == before


def test_the_very_plan_that_was_shown(full: Home) -> None:
    plan = _plan(full)
    done = full.post("/api/gc/execute", {"yes": True, "plan": plan["plan"]})
    assert (done["ok"], done["reclaimed_bytes"]) == (True, plan["reclaim_bytes"])


def test_another_plan_than_the_one_that_was_shown_is_refused(full: Home) -> None:
    shown = _plan(full)
    add_model(full.paths.hub_cache, "org/one", commit=NEWER, weights=_weights(7000))
    before = _tree(full)
    answer = full.client.post("/api/gc/execute", json={"yes": True, "plan": shown["plan"]})
    assert answer.status_code == 409
    assert "look at it again" in answer.json()["error"]
    assert _tree(full) == before
    assert _plan(full)["plan"] != shown["plan"]


@pytest.mark.parametrize("plan", [5, ["x"], {}, True])
def test_a_plan_that_is_no_name(full: Home, plan: Any) -> None:
    before = _tree(full)
    answer = full.client.post("/api/gc/execute", json={"yes": True, "plan": plan})
    assert answer.status_code == 400
    assert _tree(full) == before


def test_a_snapshot_with_files_of_its_own_is_kept_and_told(home: Home) -> None:
    hub = home.paths.hub_cache
    more = {**_weights(100), "adapter.safetensors": safetensors()}
    add_model(hub, "org/one", commit=OLD, weights=more, ref=None)
    add_model(hub, "org/one", commit=MAIN, weights=_weights(200))
    (row,) = _plan(home)["superseded"]
    assert (row["prune_snapshots"], row["skipped_snapshots"], row["dead_blobs"]) == (0, 1, 0)
    before = _tree(home)
    assert home.post("/api/gc/execute", {"yes": True})["snapshots"] == 0
    assert _tree(home) == before


def test_the_snapshot_that_is_served_stays(full: Home) -> None:
    """Even where the server could not leave its file in the run folder."""
    served = full.paths.hub_cache / "models--org--one" / "snapshots" / OLD
    full.engine.folder = served
    shown = [row["repo_id"] for row in _plan(full)["superseded"]]
    assert shown == ["org/two"]
    assert full.post("/api/gc/execute", {"yes": True})["snapshots"] == 0
    assert (served / "model.safetensors").is_file()
    full.engine.folder = None
    assert full.post("/api/gc/execute", {"yes": True})["snapshots"] == 1


def test_what_is_being_downloaded_stays(full: Home) -> None:
    number = Ledger(full.paths.downloads_file).begin("org/one", "main")
    assert [row["repo_id"] for row in _plan(full)["superseded"]] == ["org/two"]
    Ledger(full.paths.downloads_file).end(number, "done")
    assert len(_plan(full)["superseded"]) == 2


def test_what_could_not_be_deleted_is_told() -> None:
    item = Item(kind=Kind.BLOBS, what="2 orphaned blobs", base=Path("/hub"))
    gone, stays = Path("/hub/gone"), Mishap(path=Path("/hub/stays"), reason="Permission denied")
    result = Result(item=item, deleted=(gone,), bytes=5, skipped=(), failed=(stays,))
    done = done_body([result])
    assert (done.ok, done.snapshots, done.blobs, done.reclaimed_bytes) == (False, 0, 1, 5)
    assert done.error == "1 thing could not be deleted."


def test_two_who_tidy_up_at_once(full: Home) -> None:
    from core.gc.locks import holding

    lock = full.paths.hub_cache / ".locks" / "mlxbun.gc.lock"
    with holding(lock, is_ours=True) as alone:
        assert alone
        answer = full.client.post("/api/gc/execute", json={"yes": True})
    assert answer.status_code == 409
    problem = answer.json()
    assert problem["ok"] is False
    assert "Another mlxbun gc" in problem["error"]
