"""How huggingface_hub's requests are sent: with an end to every wait, tried again, and told.

huggingface_hub asks one shared client for everything. While an upload runs, that client is ours
(`Carrier.at_work`): its own client with our patience in place of its own, which waits for ever on a
connection that has gone quiet, and whose retries nobody hears of. The token goes to the Hub's own
host and to no other.

Source: `huggingface_hub.utils._http` (`http_backoff`, `default_client_factory`), version 2.4.
"""

from __future__ import annotations

import logging
import re
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from huggingface_hub import constants, set_client_factory
from huggingface_hub.utils._http import default_client_factory
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)

from core.download.patience import Patience, retry_after
from core.errors import UploadFailed
from core.registry.files import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from core.upload.ending import Ending

_LATER = (408, 425, 429)
_NEVER = (501, 505, 507)  # of those from 500: asking again does not help
_OFF = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY")
_BUSY = "another conflicting operation is in progress"
_COMMIT = re.compile(r"/api/(?:models|datasets)/[^/]+/[^/]+/commit/")
_TELLING = re.compile(r"/preupload/|\.git/info/lfs/objects/batch$")
_RESET = re.compile(r";\s*t=(\d{1,6})")  # seconds until a rate limit ends, in the header RateLimit


class Listener(Protocol):
    """Hears how the requests get on."""

    def retrying(self, name: str, reason: str, failures: int, wait: float) -> None:
        """Hear that a request is sent again in `wait` seconds."""

    def answered(self, path: str, content: Any) -> None:
        """Hear what the Hub says about the files that it is offered, as JSON."""

    def committing(self) -> None:
        """Hear that the next request makes the commit; may raise to prevent it."""


class Stale(Exception):
    """What was agreed with the Hub does not hold any more: the files have to be offered again.

    Never leaves this package. The text is why, as a clause.

    Attributes:
        wish: the seconds until then that the Hub asks for; None: it asks for none.
        unwell: the Hub was not well; else something has changed, which does not happen often.
    """

    def __init__(self, reason: str, *, wish: float | None = None, unwell: bool = False) -> None:
        super().__init__(reason)
        self.wish = wish
        self.unwell = unwell


class _Trouble(Exception):
    """A request that did not end well and may the next time."""

    def __init__(
        self, reason: str, *, wish: float | None = None, unreachable: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wish = wish
        self.unreachable = unreachable


class Carrier:
    """Sends the requests of one upload. Called from several threads."""

    def __init__(
        self,
        *,
        endpoint: str,
        patience: Patience,
        answer_seconds: float,
        ending: Ending,
        listener: Listener,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            endpoint: the Hub's address.
            patience: how often to try, and how long to wait for a connection that takes no bytes.
            answer_seconds: how long to wait for an answer once everything has been sent.
            ending: ends the waits.
            listener: hears how it goes.
        """
        self._origin = _origin_of(endpoint)
        self._endpoint = endpoint
        self._patience = patience
        self._answer_seconds = answer_seconds
        self._ending = ending
        self._listener = listener
        self._reached = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Be huggingface_hub's client inside the block, in the whole process."""
        with _quiet_library():
            set_client_factory(self._client)
            try:
                yield
            finally:
                set_client_factory(default_client_factory)

    def _client(self) -> Any:
        client: Any = default_client_factory()
        stall = self._patience.stall_seconds
        client.timeout = (self._patience.connect_seconds, self._answer_seconds, stall, None)
        once = client.request

        def request(method: str, url: str, **content: Any) -> Any:
            return self._send(once, method, str(url), content)

        client.request = request
        return client

    def _send(
        self, once: Callable[..., Any], method: str, url: str, content: dict[str, Any]
    ) -> Any:
        """Return the answer to a request, tried until it comes."""
        content = self._without_secrets(url, content)
        body: Any = content.get("data")
        start = body.tell() if hasattr(body, "tell") else None
        path = urlsplit(url).path
        if _COMMIT.search(path):
            self._listener.committing()
        failures = 0
        while True:
            self._ending.check()
            try:
                return self._once(once, method, url, content)
            except _Trouble as trouble:
                failures += 1
                if _COMMIT.search(path) and not trouble.unreachable:
                    # It may have been made all the same: whoever asks again looks first.
                    raise Stale(trouble.reason, wish=trouble.wish, unwell=True) from None
                self._wait(trouble, failures, body, url)
            if start is not None:
                body.seek(start)

    def _once(
        self, once: Callable[..., Any], method: str, url: str, content: dict[str, Any]
    ) -> Any:
        try:
            response = once(method, url, **content)
        except Exception as problem:
            if (trouble := _trouble_of(problem)) is None:
                raise
            raise trouble from None
        on_hub = _origin_of(str(response.url)) == self._origin
        self._reached = self._reached or on_hub
        if (trouble := _trouble_in(response, "the Hub" if on_hub else "its storage")) is not None:
            raise trouble
        path = urlsplit(url).path
        if response.status_code >= 400 and (not on_hub or method == "PUT"):
            # The address to send to has expired: the Hub gives a new one.
            raise Stale(f"its storage answers with status {response.status_code}")
        if response.status_code in (409, 412) and _COMMIT.search(path):
            raise Stale("somebody else has committed meanwhile")
        if response.status_code == 200 and _TELLING.search(path):
            self._listener.answered(path, _json(response))
        return response

    def _wait(self, trouble: _Trouble, failures: int, body: Any, url: str) -> None:
        """Wait before the next try.

        Raises:
            UploadFailed: there is none.
            Cancelled: the end has come.
        """
        hopeless = trouble.unreachable and not self._reached
        if hopeless or failures >= self._patience.tries:
            raise self._ending.fail(
                UploadFailed(
                    f"The Hugging Face Hub does not help: {trouble.reason}.",
                    hint=f"Check the network, and whether {self._endpoint} opens, and give the same"
                    " command again: what has been sent is not sent again.",
                )
            )
        wait = self._patience.wait(failures, wish=trouble.wish)
        self._listener.retrying(_name_of(body, url), trouble.reason, failures, wait)
        self._ending.wait(wait)

    def _without_secrets(self, url: str, content: dict[str, Any]) -> dict[str, Any]:
        """Return a request's content without the token, when it goes to another host."""
        headers = content.get("headers")
        if not headers or _origin_of(url) == self._origin:
            return content
        kept = {key: value for key, value in headers.items() if key.lower() != "authorization"}
        return {**content, "headers": kept}


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Keep huggingface_hub's bars and warnings off the terminal, and two of its ways out of it.

    Xet has a client of its own, which neither tells where it stands nor stops when it is asked to.
    What is called telemetry asks the Hub for a list of programs that may have started this one.
    """
    logger = logging.getLogger("huggingface_hub")
    level, bars = logger.level, are_progress_bars_disabled()
    before = {name: getattr(constants, name) for name in _OFF}
    if level > logging.DEBUG:  # debugging is the user's wish
        logger.setLevel(logging.CRITICAL)
    disable_progress_bars()
    for name in _OFF:
        setattr(constants, name, True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in before.items():
            setattr(constants, name, value)
        logger.setLevel(level)
        if not bars:
            enable_progress_bars()


def _trouble_of(problem: Exception) -> _Trouble | None:
    """Return what an exception of the HTTP library means; None: it is none of the network's.

    By name: which library it is has changed between versions of huggingface_hub.
    """
    kinds = {kind.__name__ for kind in type(problem).__mro__}
    if kinds & {"ConnectError", "ConnectTimeout", "ProxyError"}:
        said = (str(problem).splitlines() or [""])[0].rstrip(".") or type(problem).__name__
        return _Trouble(f"it cannot be reached ({printable(said, 200)})", unreachable=True)
    if "TimeoutException" in kinds:
        return _Trouble("the connection has gone quiet")
    if "TransportError" in kinds:
        return _Trouble("the connection was cut")
    return _Trouble("its answer cannot be read") if "RequestError" in kinds else None


def _trouble_in(response: Any, host: str) -> _Trouble | None:
    """Return what an answer means that may be another one the next time; None: it is final."""
    status: int = response.status_code
    if status == 409 and _BUSY in response.text:
        return _Trouble(f"{host} is busy")
    if status in _NEVER or (status < 500 and status not in _LATER):
        return None
    wish = retry_after(response.headers.get("Retry-After"))
    if wish is None and status == 429:
        found = _RESET.search(response.headers.get("RateLimit", ""))
        wish = float(found[1]) if found else None
    return _Trouble(f"{host} answers with status {status}", wish=wish)


def _json(response: Any) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _name_of(body: Any, url: str) -> str:
    """Return what a request was about, for people."""
    name = getattr(body, "name", None) or getattr(getattr(body, "fileobj", None), "name", None)
    if isinstance(name, str):
        return name
    return "the commit" if _COMMIT.search(urlsplit(url).path) else "the Hub"


def _origin_of(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port, which a token may not leave."""
    parts = urlsplit(url)
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    try:
        return parts.scheme, (parts.hostname or "").lower(), parts.port or usual
    except ValueError:  # a port that is none
        return parts.scheme, "", None
