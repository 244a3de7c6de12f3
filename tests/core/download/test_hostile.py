"""A Hub that lies: nothing is written outside the repository's folder, and nothing crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.download.answers import Asked, refusal
from core.download.names import RepoName
from core.errors import DoesNotFit, DownloadFailed, MlxbunError
from tests.core.download.conftest import FILES, REPO, WEIGHTS, Desk
from tests.fakehub import Fault, etag, git_hash

FOR_GOOD = 10**6


def _lists(desk: Desk, *entries: Any) -> None:
    """Have the hub list these."""
    path = f"/api/models/{REPO}/tree/{desk.hub.repos[REPO].commit}"
    desk.hub.raw[path] = json.dumps(entries).encode()


def _entry(name: str = "config.json", **other: Any) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": 2, "oid": git_hash(b"{}"), **other}


def _refused(desk: Desk, kind: type[MlxbunError] = DownloadFailed) -> str:
    with pytest.raises(kind) as caught:
        desk.fetch(include=("*",))
    assert "\n" not in caught.value.message
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 400
    return caught.value.message


@pytest.mark.parametrize(
    "name",
    ["../evil", "../../../evil", "a/../../evil", "/etc/evil", "//evil", "a//b", "", ".", "..", "a/",
     "a/./b", "..\\evil", "C:\\evil", "a\0b", "a\nb", "a\x1b[2J", "x" * 256, "\ud800", "a/" * 600],
)  # fmt: skip
def test_names_that_lead_elsewhere(desk: Desk, name: str) -> None:
    _lists(desk, _entry(), _entry(name))
    assert "it lists a file that is called" in _refused(desk)
    assert not desk.paths.hub_cache.exists()


@pytest.mark.parametrize("size", [-1, 2**70, 1.5, "2", None, True, [], 10**400])
def test_sizes_that_are_none(desk: Desk, size: Any) -> None:
    _lists(desk, _entry(size=size))
    assert "makes no sense" in _refused(desk)


def test_a_size_beyond_every_disk(desk: Desk) -> None:
    _lists(desk, _entry(size=2**50))
    assert "of disk" in _refused(desk, DoesNotFit)
    assert not desk.hub.served


@pytest.mark.parametrize("oid", ["", "../../evil", "0" * 39, "g" * 40, "0" * 64, "A" * 40, None, 7])
def test_hashes_that_are_none(desk: Desk, oid: Any) -> None:
    _lists(desk, _entry(oid=oid))
    assert "with the hash" in _refused(desk)
    _lists(desk, _entry(lfs={"oid": "../evil", "size": 2}))
    _refused(desk)
    _lists(desk, _entry(lfs={}))
    _refused(desk)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"null", b"[1]", b"[[]]", b"[" * 100_000, b'[{"type": "file"}]', b"\xff\xfe\xff",
     b'{"a":' * 50_000, b"[" + b"9" * 5000 + b"]", b'"' + b"x" * 1000],
    ids=range(11),
)  # fmt: skip
@pytest.mark.parametrize("part", ["revision/main", "tree"])
def test_json_that_is_rubbish(desk: Desk, part: str, body: bytes) -> None:
    part = f"tree/{desk.hub.repos[REPO].commit}" if part == "tree" else part
    desk.hub.raw[f"/api/models/{REPO}/{part}"] = body
    _refused(desk)
    assert not desk.paths.hub_cache.exists()


@pytest.mark.parametrize("sha", ["", "../../evil", "main", None, 3, "0" * 41, "A" * 40])
def test_commits_that_are_none(desk: Desk, sha: Any) -> None:
    desk.hub.raw[f"/api/models/{REPO}/revision/main"] = json.dumps({"sha": sha}).encode()
    assert "names no commit" in _refused(desk)


def test_an_answer_without_an_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.download.client._MOST_JSON_BYTES", 10_000)
    desk.hub.raw[f"/api/models/{REPO}/revision/main"] = b" " * 20_000
    assert "has no end" in _refused(desk)


def test_pages_without_an_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.download.listing._MOST_PAGES", 3)
    desk.hub.page = 1
    assert "its list of files has no end" in _refused(desk)


def test_a_page_at_another_host(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(desk.hub), "url", desk.hub.storage_url)
    desk.hub.page = 1
    assert "another host" in _refused(desk)


def test_a_body_that_is_longer_than_promised(desk: Desk) -> None:
    long = FILES[WEIGHTS] + b"and more"
    desk.hub.faults = [Fault(name=WEIGHTS, body=long, times=FOR_GOOD)]
    assert "the answer has" in _refused(desk)
    assert not desk.layout.blob(etag(WEIGHTS, FILES[WEIGHTS])).exists()


def test_a_body_without_an_end_is_read_to_the_promised_size(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, endless=True)]
    done = desk.fetch()
    assert (done.plan.folder / WEIGHTS).read_bytes() == FILES[WEIGHTS]


def test_an_endless_body_of_the_wrong_bytes(desk: Desk) -> None:
    desk.hub.faults = [Fault(name=WEIGHTS, endless=True, flip=1, times=FOR_GOOD)]
    assert "another content" in _refused(desk)
    assert sum(path.stat().st_size for path in desk.layout.blobs.iterdir()) < 10**6


@pytest.mark.parametrize("listed", [10, 300_000 * 2])
def test_a_size_that_is_a_lie(desk: Desk, listed: int) -> None:
    lfs = {"oid": etag(WEIGHTS, FILES[WEIGHTS]), "size": listed}
    _lists(desk, _entry(WEIGHTS, lfs=lfs))
    assert "the answer has" in _refused(desk)


def test_another_file_under_the_name(desk: Desk) -> None:
    lfs = {"oid": "0" * 64, "size": len(FILES[WEIGHTS])}
    _lists(desk, _entry(WEIGHTS, lfs=lfs))
    assert "another content than it lists" in _refused(desk)
    assert [path.stat().st_size for path in desk.layout.blobs.iterdir()] == [0]


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "gopher://x/", "http://", "http://[", "//"]
)
def test_redirects_to_nowhere(desk: Desk, location: str) -> None:
    desk.hub.faults = [
        Fault(name="config.json", status=302, headers={"Location": location}, times=FOR_GOOD)
    ]
    _refused(desk)


def test_redirects_in_a_circle(desk: Desk) -> None:
    headers = {"Location": f"/{REPO}/resolve/main/config.json"}
    desk.hub.faults = [Fault(name="config.json", status=302, headers=headers, times=FOR_GOOD)]
    assert "redirects in a circle" in _refused(desk)


def test_files_that_are_folders_too(desk: Desk) -> None:
    desk.hub.add(REPO, {"a": b"1", "a/b": b"2"})
    _refused(desk)


def test_names_that_differ_in_case_and_odd_but_honest_names(desk: Desk) -> None:
    files = {"a b.json": b"1", "ü/#?%20.json": b"2", "-rf": b"3", "[x]*.json": b"4", "~": b"5",
             "con:fig": b"6"}  # fmt: skip
    desk.hub.add(REPO, files)
    done = desk.fetch(include=("*",))
    assert {name: (done.plan.folder / name).read_bytes() for name in files} == files


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(min_value=400, max_value=599),
    st.dictionaries(st.sampled_from(["X-Error-Code", "X-Error-Message"]), st.text(max_size=20)),
)
def test_every_refusal_is_one_of_ours(status: int, headers: dict[str, str]) -> None:
    asked = Asked(name=RepoName(repo_id="org/name"), endpoint="http://x", token=None)
    error = refusal(status, headers, asked)
    assert isinstance(error, MlxbunError)
    assert error.hint
