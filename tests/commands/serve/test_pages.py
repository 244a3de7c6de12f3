"""Redirects, and the flush of a cache that is not on disk."""

from __future__ import annotations

import httpx
import pytest


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/status", "/chat", "/quantize", "/finetune", "/dataset"])
def test_old_pages_lead_to_the_new_one(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 302
    assert answer.headers["location"] == f"/#{path}"
    assert answer.content == b""


def test_a_redirect_stays_on_this_server(client: httpx.Client) -> None:
    for path in ("/chat/", "/chat//evil.example", "//evil.example/chat", "/chat?next=//evil"):
        answer = client.get(
            httpx.URL(str(client.base_url)).join("/").copy_with(raw_path=path.encode())
        )
        assert answer.headers.get("location", "/#/chat") == "/#/chat"


def test_without_an_ssd_cache_a_flush_has_nothing_to_do(client: httpx.Client) -> None:
    answer = client.post("/admin/cache/flush")
    assert answer.status_code == 200
    assert answer.json() == {
        "durable": True,
        "flushedSnapshots": 0,
        "missingSnapshots": 0,
        "pendingSnapshots": 0,
        "pendingSpills": 0,
        "pendingSpillBytes": 0,
        "droppedSpills": 0,
        "failedSpills": 0,
        "elapsedMs": 0,
        "entries": 0,
        "longest_durable_prefix_tokens": 0,
    }


def test_strangers_flush_nothing(client: httpx.Client) -> None:
    answer = client.post("/admin/cache/flush", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
