"""The table says what the code decides, and the listing says what the table says."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from core.engine.features import Feature, facts_of, placement
from core.fit.batching import Batching
from tests.commands.serve.fake_engine import FakeEngine
from tests.commands.serve.live import live_server


def _table(client: httpx.Client) -> dict[str, Any]:
    table: dict[str, Any] = client.get("/v1/capabilities").json()
    return table


def test_every_feature_is_told_alone_and_with_every_other(
    client: httpx.Client, engine: FakeEngine
) -> None:
    table = _table(client)
    assert (table["object"], table["model"], table["batch"]) == ("capabilities", "acme/tiny-1", 8)
    rows = {row["feature"]: row for row in table["features"]}
    assert set(rows) == set(Feature)
    facts = facts_of(engine.info)
    for feature in Feature:
        row = rows[feature]
        assert row["fields"]
        assert row["lane"] == placement(frozenset((feature,)), batch=8, facts=facts).lane
        assert set(row["with"]) == set(Feature) - {feature}
        for other, cell in row["with"].items():
            wanted = placement(frozenset((feature, Feature(other))), batch=8, facts=facts)
            assert (cell["lane"], cell.get("reason")) == (wanted.lane, wanted.reason)
    assert rows["adapter"]["lane"] == rows["tools"]["with"]["media"]["lane"] == "refused"
    assert rows["tools"]["with"]["logprobs"] == {"lane": "batched"}


def test_a_serial_server_says_why() -> None:
    engine = FakeEngine(batch=1)
    with live_server(engine) as base, httpx.Client(base_url=base, trust_env=False) as client:
        rows = {row["feature"]: row for row in _table(client)["features"]}
    assert rows["chat"]["lane"] == "serial"
    assert "--batch 1" in rows["chat"]["reason"]


WHY = "The architecture gemma2 fails in a batch."


def test_a_model_that_does_not_batch_is_said_to_run_serially_everywhere() -> None:
    engine = FakeEngine(batching=Batching(mode="serial", reason=WHY))
    with live_server(engine) as base, httpx.Client(base_url=base, trust_env=False) as client:
        table, stats = _table(client), client.get("/stats").json()["batch"]
        model = client.get("/v1/models").json()["data"][0]
    rows = {row["feature"]: row for row in table["features"]}
    assert table["batch"] == stats["configured"] == 8
    assert (rows["chat"]["lane"], rows["chat"]["reason"]) == ("serial", WHY)
    assert rows["tools"]["with"]["logprobs"] == {"lane": "serial", "reason": WHY}
    assert (stats["mode"], stats["batched"], stats["reason"]) == ("serial", False, WHY)
    assert stats["prompts"] == "one by one"
    assert model["batch_mode"] == "serial"


def test_prompts_one_by_one_are_told_and_still_batched() -> None:
    engine = FakeEngine(batching=Batching(mode="joined", reason=WHY))
    with live_server(engine) as base, httpx.Client(base_url=base, trust_env=False) as client:
        table, stats = _table(client), client.get("/stats").json()["batch"]
        model = client.get("/v1/models").json()["data"][0]
    assert {row["lane"] for row in table["features"]} == {"batched", "refused"}
    assert (stats["mode"], stats["prompts"]) == ("batch", "one by one")
    assert model["batch_mode"] == "batch"


def test_a_model_without_a_reasoning_channel_is_not_said_to_reason() -> None:
    engine = FakeEngine(able=False)
    with live_server(engine) as base, httpx.Client(base_url=base, trust_env=False) as client:
        model = client.get("/v1/models").json()["data"][0]
    assert model["reasoning"] is False
    assert model["capabilities"]["structured_output"] is True


@pytest.mark.parametrize("name", ["tools", "structured_output", "logprobs"])
def test_the_listing_agrees_with_the_table(client: httpx.Client, name: str) -> None:
    model = client.get("/v1/models").json()["data"][0]
    rows = {row["feature"]: row for row in _table(client)["features"]}
    assert model["capabilities"][name] is (rows[name]["lane"] != "refused")
