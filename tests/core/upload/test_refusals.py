"""What the Hub refuses, in one sentence each; and the token, which is in none of them."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from core.errors import MlxbunError, NotFound, StoreCorrupt, UploadFailed, UsageProblem
from core.hf_token import save_token
from tests.core.upload.conftest import QUICK, REPO, SECRET, WEIGHTS, Desk, fill
from tests.core.upload.hub import Account, Broken, Refusal
from tests.processes import NOWHERE


@pytest.fixture(autouse=True)
def every_log_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Have everything logged, HF_DEBUG's lines too, and look for the token in it afterwards."""
    monkeypatch.setattr(constants, "HF_DEBUG", True)
    library = logging.getLogger("huggingface_hub")
    level, propagate = library.level, library.propagate
    library.setLevel(logging.DEBUG)
    library.propagate = True
    caplog.set_level(logging.DEBUG)
    yield
    library.setLevel(level)
    library.propagate = propagate
    lines = [record.getMessage() + str(record.exc_text) for record in caplog.records]
    assert not any(SECRET in line or "hf_wrong" in line for line in lines)


def _refused(
    desk: Desk, kind: type[MlxbunError] = UploadFailed, to: str = REPO, **environ: str
) -> MlxbunError:
    """Return the error of an upload that must fail."""
    with pytest.raises(kind) as caught:
        desk.upload(to=to, environ=environ)
    error = caught.value
    assert type(error) is kind
    assert "\n" not in error.message
    assert error.hint
    shown = "".join(traceback.format_exception(error))
    for secret in (SECRET, "hf_wrongwrongwrong"):
        assert secret not in shown
        assert secret not in f"{error.message} {error.hint} {error!r} {desk.events}"
    return error


# The token


def test_no_token(desk: Desk) -> None:
    error = _refused(desk, HF_TOKEN="")
    assert error.message == (
        "There is no Hugging Face token on this machine, and nothing is uploaded without one."
    )
    for way in ("HF_TOKEN", "`hf auth login`", str(desk.paths.token_file), "/settings/tokens"):
        assert way in str(error.hint)
    assert desk.hub.log == []


def test_a_token_that_nobody_knows(desk: Desk) -> None:
    error = _refused(desk, HF_TOKEN="hf_wrongwrongwrong")
    assert error.message == "The Hub does not accept the token in HF_TOKEN."
    assert f"{desk.hub.url}/settings/tokens" in str(error.hint)
    assert len(desk.hub.log) == 1


def test_a_token_in_our_own_file(desk: Desk) -> None:
    save_token(desk.paths, SECRET)
    desk.upload(environ={"HF_TOKEN": ""})
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS
    assert desk.paths.token_file.stat().st_mode & 0o777 == 0o600
    save_token(desk.paths, "hf_wrongwrongwrong")
    error = _refused(desk, HF_TOKEN="")
    assert error.message == f"The Hub does not accept the token in {desk.paths.token_file}."


def test_a_token_in_the_librarys_file(desk: Desk, tmp_path: Path) -> None:
    fill(tmp_path, {".cache/huggingface/token": SECRET.encode()})
    desk.upload(environ={"HF_TOKEN": ""})
    assert desk.hub.files(REPO)["model.safetensors"] == WEIGHTS


def test_tokens_that_are_none(desk: Desk) -> None:
    assert (
        "holds no Hugging Face token"
        in _refused(desk, UsageProblem, HF_TOKEN=f"{SECRET} {SECRET}").message
    )
    desk.paths.token_file.mkdir(parents=True)
    assert "cannot be read" in _refused(desk, StoreCorrupt, HF_TOKEN="").message


def test_a_token_that_may_only_read(desk: Desk) -> None:
    desk.hub.accounts[SECRET] = Account(name="me", role="read")
    error = _refused(desk)
    assert error.message == "The token in HF_TOKEN may only read."
    assert "one that may write" in str(error.hint)


def test_a_repository_of_somebody_else(desk: Desk) -> None:
    desk.hub.account("hf_other", "you")
    error = _refused(desk, to="you/name")
    assert error.message == "The token in HF_TOKEN belongs to me, who is not in you."
    assert "Upload to me/name" in str(error.hint)
    desk.hub.add("you/name", {})
    error = _refused(desk, to="you/name")
    assert error.message == (
        'The token in HF_TOKEN may not write to you/name ("You do not have write access").'
    )


def test_an_organization_that_is_not_there(desk: Desk) -> None:
    error = _refused(desk, NotFound, to="nobody/name")
    assert error.message == "The Hub has no user or organization 'nobody'."


def test_an_organization_in_which_one_has_no_role(desk: Desk) -> None:
    words = "You don't have the rights to create a model under the namespace"
    desk.hub.refusals = [
        Refusal(path="/api/repos/create", status=403, headers={"X-Error-Message": words})
    ]
    error = _refused(desk, to="org/name")
    assert error.message == f'The token in HF_TOKEN may not make org/name ("{words}").'
    assert "your role in org" in str(error.hint)


def test_an_account_that_is_not_told(desk: Desk) -> None:
    desk.hub.refusals = [
        Refusal(path="/api/repos/create", status=403),
        Refusal(method="GET", path="/api/whoami-v2", status=400),
        Refusal(method="GET", path="/overview", status=400, times=2),
    ]
    assert _refused(desk).message == 'The token in HF_TOKEN may not make me/name ("no").'


# Everything else


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (402, "Payment required"),
        (403, "Private repository storage limit reached, please upgrade your plan"),
        (403, "Your storage patterns tripped our internal systems!"),
        (413, "Payload too large"),
        (507, "no"),
    ],
)
@pytest.mark.parametrize("path", ["/api/repos/create", "/objects/batch", "/commit/"])
def test_no_room(desk: Desk, status: int, words: str, path: str) -> None:
    headers = {"X-Error-Message": words}
    desk.hub.refusals = [Refusal(path=path, status=status, headers=headers, times=99)]
    error = _refused(desk)
    assert error.message == f'The Hub has no room for me/name ("{words}").'
    assert "/settings/billing" in str(error.hint)


def test_an_object_that_is_refused_for_want_of_room(desk: Desk) -> None:
    oid = "0" * 64
    told = {"oid": oid, "size": 1, "error": {"code": 403, "message": f"storage full {SECRET}"}}
    body = json.dumps({"objects": [told]}).encode()
    desk.hub.refusals = [Refusal(path="/objects/batch", status=200, body=body)]
    assert "storage full (the token)" in _refused(desk).message


def test_a_commit_that_is_rejected(desk: Desk) -> None:
    body = b'{"error": "Your push was rejected because\\nit contains <a secret>."}'
    desk.hub.refusals = [Refusal(path="/commit/", status=400, body=body)]
    assert _refused(desk).message == (
        "The Hub rejects what was sent to me/name"
        ' ("Your push was rejected because it contains <a secret>").'
    )


def test_a_repository_that_goes_away_meanwhile(desk: Desk) -> None:
    code = {"X-Error-Code": "RepoNotFound"}
    desk.hub.refusals = [Refusal(path="/preupload/", status=404, headers=code, body=b"")]
    assert _refused(desk, NotFound).message == "The Hub has no model me/name any more."


def test_a_block_that_the_hub_does_not_accept(desk: Desk) -> None:
    body = b'{"errors": [{"message": "\\"license\\" must be one of [x]"}], "warnings": []}'
    desk.hub.refusals = [Refusal(path="/api/validate-yaml", status=400, body=body)]
    error = _refused(desk)
    assert error.message.startswith("The Hub does not accept the block at the top of README.md (")
    assert '"license" must be one of [x]' in error.message
    assert desk.hub.received_bytes == 0


@pytest.mark.parametrize("status", [405, 418, 451])
def test_answers_that_nobody_expects(desk: Desk, status: int) -> None:
    desk.hub.refusals = [Refusal(path="/preupload/", status=status)]
    assert f"answers with status {status} for me/name" in _refused(desk).message


@pytest.mark.parametrize("path", ["/preupload/", "/objects/batch", "/commit/"])
@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"null", b'{"files": 3, "objects": 3}'])
def test_answers_that_make_no_sense(desk: Desk, path: str, body: bytes) -> None:
    desk.hub.refusals = [Refusal(path=path, status=200, body=body, times=99)]
    error = _refused(desk)
    assert error.message.startswith("The Hub's answer about me/name makes no sense (")
    assert "HF_ENDPOINT" in str(error.hint)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"null"])
def test_an_address_of_something_else(desk: Desk, body: bytes) -> None:
    desk.hub.raw["/api/models/me/name"] = body
    assert "makes no sense" in _refused(desk).message


def test_an_endpoint_that_is_none(desk: Desk) -> None:
    assert "is no address" in _refused(desk, UsageProblem, HF_ENDPOINT="ftp:/x").message


def test_the_token_in_what_the_hub_says(desk: Desk) -> None:
    said = {"X-Error-Message": f"No rights for {SECRET} \x1b[31m"}
    desk.hub.refusals = [Refusal(path="/preupload/", status=403, headers=said)]
    assert "No rights for (the token)" in _refused(desk).message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 500])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/models/me/name"),
        ("POST", "/api/repos/create"),
        ("POST", "/api/validate-yaml"),
        ("POST", "/preupload/"),
        ("POST", "/objects/batch"),
        ("PUT", "/object/"),
        ("POST", "/commit/"),
    ],
)
def test_every_refusal_everywhere(desk: Desk, status: int, method: str, path: str) -> None:
    """Whatever is refused wherever, it is one sentence without the token, or it works."""
    echo = f'{{"error": "you sent {SECRET}"}}'.encode()
    desk.hub.refusals = [Refusal(method=method, path=path, status=status, body=echo, times=99)]
    failure: MlxbunError | None = None
    try:
        desk.upload()
    except MlxbunError as error:
        failure = error
    if failure is not None:
        assert SECRET not in "".join(traceback.format_exception(failure)) + str(failure.hint)
        assert "\n" not in failure.message
    assert SECRET not in str(desk.events)


def test_the_token_goes_to_the_hub_alone(desk: Desk) -> None:
    desk.hub.part_bytes = 100_000
    desk.hub.broken_bodies = [Broken(cut=1000)]
    desk.upload()
    desk.hub.part_bytes = 0
    fill(desk.folder, {"model-2.safetensors": WEIGHTS[:-1] + b"x"})
    desk.upload()
    away = [request for request in desk.hub.requests if not request.on_hub]
    assert {request.method for request in away} == {"PUT"}
    assert not any(SECRET in str(request.headers) for request in away)
    assert any(SECRET in str(request.headers) for request in desk.hub.requests)


def test_a_redirection_elsewhere_gets_no_token(desk: Desk) -> None:
    place = {"Location": f"{desk.hub.storage_url}/api/whoami-v2"}
    desk.hub.refusals = [
        Refusal(method="GET", path="/api/models/me/name", status=302, headers=place)
    ]
    assert _refused(desk).message == (
        "The Hugging Face Hub does not help: its storage answers with status 401."
    )
    (away,) = [request for request in desk.hub.requests if not request.on_hub]
    assert SECRET not in str(away.headers)


def test_a_verification_elsewhere_gets_no_token(desk: Desk) -> None:
    """The library shows the token to whatever address it is told to verify at."""
    desk.hub.verify = True
    desk.hub.verify_elsewhere = True
    desk.upload()
    (asked,) = [request for request in desk.hub.requests if request.path == "/verify"]
    assert not asked.on_hub
    assert SECRET not in str(asked.headers)


def test_nothing_of_the_token_is_written(desk: Desk, tmp_path: Path) -> None:
    desk.upload(keep_card=True)
    _refused(desk, HF_ENDPOINT=NOWHERE)
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in content for content in kept)
    assert SECRET not in repr(desk.plan()) + repr(QUICK)
