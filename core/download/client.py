"""HTTP to the Hub: redirects, the token, and what went wrong, in our words.

Redirects are followed here and not by httpx, because two things hang on them: the token goes to
the Hub's own host and never to one that it redirects to, and the etag that counts is the one that
the Hub names before it sends a client on to its storage.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import httpx

from core.download.answers import Asked, refusal
from core.download.events import OnEvent, Retrying, ignore_event
from core.download.patience import Patience, retry_after
from core.errors import DownloadFailed, UsageProblem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from types import TracebackType

    from core.download.names import RepoName
    from core.hf_token import HubToken

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 8
_MOST_JSON_BYTES = 64 * 2**20
_LATER = (408, 425, 429)  # and everything from 500


class Trouble(Exception):
    """A request that did not end well and may the next time. Never leaves this package.

    Attributes:
        reason: a clause: `the connection was cut`.
        wish: seconds that the server asked to wait, or None.
        unreachable: no connection came about.
        no_ranges: the server cannot go on in the middle of this file.
    """

    def __init__(
        self,
        reason: str,
        *,
        wish: float | None = None,
        unreachable: bool = False,
        no_ranges: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wish = wish
        self.unreachable = unreachable
        self.no_ranges = no_ranges


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The last answer of a chain of redirects, its body still to be read."""

    response: httpx.Response
    """Of the host that has the content."""
    etag: str | None
    """The hash by which the Hub sends a client to its storage; None: it did not."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of an answer in JSON."""

    content: Any
    """As parsed."""
    next_url: str | None
    """Where the next page is; None: this is the last."""


def checked_endpoint(endpoint: str) -> str:
    """Return a Hub's address as it is.

    Raises:
        UsageProblem: it is none.
    """
    if _origin_of(endpoint) is None:
        raise UsageProblem(
            f"{endpoint[:200]!r} is no address of a Hugging Face Hub.",
            hint="Check HF_ENDPOINT: it looks like https://huggingface.co.",
        )
    return endpoint


class HubClient:
    """Asks one Hub about one repository. An async context manager, for one event loop."""

    def __init__(
        self,
        name: RepoName,
        *,
        endpoint: str,
        token: HubToken | None,
        patience: Patience,
        on_event: OnEvent = ignore_event,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            name: the repository.
            endpoint: the Hub's address, checked.
            token: what to show it.
            patience: how long to wait for it.
            on_event: is told when a question has to be asked again.
        """
        self._asked = Asked(name=name, endpoint=endpoint, token=token)
        self._origin = _origin_of(endpoint)
        self._patience = patience
        self._tell = on_event
        timeout = httpx.Timeout(patience.stall_seconds, connect=patience.connect_seconds, pool=None)
        # "identity": bodies are counted and hashed as they are, and ranges mean their bytes.
        headers = {"User-Agent": "mlxbun", "Accept-Encoding": "identity"}
        self._http = httpx.AsyncClient(timeout=timeout, headers=headers, follow_redirects=False)

    async def __aenter__(self) -> HubClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    @property
    def asked(self) -> Asked:
        """What refusals are told about."""
        return self._asked

    async def ask(self, url: str) -> Page:
        """Return what the Hub says at an address of its own.

        Raises:
            DownloadFailed: it cannot be reached, answers nonsense, or refuses.
            NotFound: no such repository or revision.
        """
        if _origin_of(url) != self._origin:
            raise DownloadFailed("The Hub sends us to another host for its list of files.")
        failures = 0
        while True:
            try:
                return await self._ask_once(url)
            except Trouble as trouble:
                failures += 1
                if trouble.unreachable or failures >= self._patience.question_tries:
                    raise self._silence(trouble) from None
                wait = self._patience.wait(failures, wish=trouble.wish)
                name, reason = str(self._asked.name), trouble.reason
                self._tell(Retrying(name=name, reason=reason, failures=failures, wait=wait))
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def get(
        self, url: str, *, start: int = 0, file: str | None = None
    ) -> AsyncIterator[Answer]:
        """Open an address at a byte; `file` is what it holds, for messages.

        Raises:
            Trouble: worth another try.
            DownloadFailed: refused for good.
            NotFound: there is no such file, revision or repository.
        """
        ranges = {"Range": f"bytes={start}-"} if start else {}
        with _troubles():
            response, etag = await self._follow(url, ranges)
            try:
                self._check(response, start, file)
                yield Answer(response=response, etag=etag)
            finally:
                await response.aclose()

    async def _ask_once(self, url: str) -> Page:
        body = bytearray()
        try:
            # A body that trickles never stalls: so this has an end of its own.
            async with asyncio.timeout(4 * self._patience.stall_seconds), self.get(url) as answer:
                async for chunk in answer.response.aiter_bytes():
                    body += chunk
                    if len(body) > _MOST_JSON_BYTES:
                        raise DownloadFailed("The Hub's answer about the repository has no end.")
                following = answer.response.links.get("next", {}).get("url")
        except TimeoutError:
            raise Trouble("it takes too long to answer") from None
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            raise DownloadFailed(
                f"{self._asked.endpoint} does not answer like a Hugging Face Hub.",
                hint="Check HF_ENDPOINT, and whether a proxy or a login page stands in between.",
            ) from None
        return Page(content=content, next_url=following)

    async def _follow(
        self, url: str, headers: Mapping[str, str]
    ) -> tuple[httpx.Response, str | None]:
        """Return the answer at the end of the redirects, and the Hub's etag for it."""
        etag: str | None = None
        for _ in range(_MOST_REDIRECTS):
            on_hub = _origin_of(url) == self._origin
            request = self._http.build_request(
                "GET", url, headers={**headers, **(self._authorization() if on_hub else {})}
            )
            response = await self._http.send(request, stream=True)
            location = response.headers.get("Location")
            if on_hub:
                etag = _bare(response.headers.get("X-Linked-Etag")) or etag
            if response.status_code not in _REDIRECTS or not location:
                return response, etag
            await response.aclose()
            url = str(response.url.join(location))
            if _origin_of(url) is None:
                raise DownloadFailed("The Hub sends us to an address that is none of the web.")
        raise Trouble("it redirects in a circle")

    def _authorization(self) -> dict[str, str]:
        token = self._asked.token
        return {"Authorization": f"Bearer {token.value}"} if token else {}

    def _check(self, response: httpx.Response, start: int, file: str | None) -> None:
        """Let a good answer pass."""
        status = response.status_code
        if status in (200, 206):
            return
        host = "the Hub" if _origin_of(str(response.url)) == self._origin else "its storage"
        if status == 416 and start:
            raise Trouble(f"{host} cannot go on at byte {start}", no_ranges=True)
        # What the storage refuses is an address that has expired: the Hub gives a new one.
        if status >= 500 or status in _LATER or host != "the Hub":
            wish = retry_after(response.headers.get("Retry-After"))
            raise Trouble(f"{host} answers with status {status}", wish=wish)
        raise refusal(status, response.headers, replace(self._asked, file=file))

    def _silence(self, trouble: Trouble) -> DownloadFailed:
        return DownloadFailed(
            f"The Hugging Face Hub does not help: {trouble.reason}.",
            hint=f"Check the network, and whether {self._asked.endpoint} opens, and try again.",
        )


@contextmanager
def _troubles() -> Iterator[None]:
    """Turn what httpx raises inside the block into `Trouble`: the only place that knows both."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as problem:
        said = (str(problem).splitlines() or [""])[0].rstrip(".") or type(problem).__name__
        raise Trouble(f"it cannot be reached ({said})", unreachable=True) from None
    except httpx.TimeoutException:
        raise Trouble("nothing has come for a while") from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise Trouble("the connection was cut") from None


def _origin_of(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port, which a token may not leave; None: it is no web address."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return None
    usual = {"http": 80, "https": 443}.get(parsed.scheme)
    if usual is None or not parsed.host:
        return None
    return parsed.scheme, parsed.host.lower(), parsed.port or usual


def _bare(etag: str | None) -> str | None:
    """Return an etag without its quotes and without the mark of a weak one."""
    return etag.removeprefix("W/").strip('"') if etag else None
