"""What the starter writes under a schema is valid under it: 60 schemas of the suite, 8 at a time.

Slow: the long part of `tests/core/engine/grammar/test_suite.py`, with a real model.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from core.engine.grammar.emit import Style
from core.engine.grammar.raw import emit
from core.engine.grammar.schema import Preparer
from core.engine.grammar.screen import NotPossible
from tests.core.engine.grammar.test_suite import SUITE, groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.processes import Server

pytestmark = [pytest.mark.starter, pytest.mark.slow]

SCHEMAS = 60
BATCH = 8
MOST_TOKENS = 48


def enforced() -> list[Any]:
    """Return the suite's schemas that are enforced in full, some of every keyword first."""
    found: list[tuple[int, str, Any]] = []
    for file in sorted(SUITE.glob("*.json")):
        for place, group in enumerate(groups(file.stem)):
            try:
                prepared = Preparer(group["schema"]).prepare(group["schema"])
                unenforced = emit(group["schema"], Style()).unenforced
            except NotPossible:
                continue
            # What is not limited at all is no test, and never ends.
            if not unenforced and prepared not in ({}, True, False):
                found.append((place, file.stem, group["schema"]))
    return [schema for _place, _keyword, schema in sorted(found, key=lambda one: one[:2])]


def ask(server: Server, schema: Any) -> httpx.Response:
    shown = {name: value for name, value in schema.items() if name != "$schema"}
    form = {"name": "example", "schema": schema, "any_whitespace": False}
    body = {
        "messages": [{"role": "user", "content": f"A short JSON example of {json.dumps(shown)}"}],
        "temperature": 0.5,
        "seed": 1,
        "max_tokens": MOST_TOKENS,
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    url = f"{server.url}/v1/chat/completions"
    return httpx.post(url, json=body, trust_env=False, timeout=300)


@pytest.mark.timeout(900)
def test_what_is_generated_under_a_schema_is_valid(
    server: Server, record_property: Callable[[str, object], None]
) -> None:
    schemas = enforced()[:SCHEMAS]
    assert len(schemas) == SCHEMAS
    with ThreadPoolExecutor(BATCH) as clients:
        answers = list(clients.map(lambda schema: ask(server, schema), schemas))
    finished = 0
    for schema, answer in zip(schemas, answers, strict=True):
        assert answer.status_code == 200, answer.text
        assert "warning" not in answer.headers, (schema, answer.headers["warning"])
        choice = answer.json()["choices"][0]
        if choice["finish_reason"] == "length":
            continue  # cut off: neither valid nor invalid
        finished += 1
        text = choice["message"]["content"]
        assert Draft202012Validator(schema).is_valid(json.loads(text)), (schema, text)
    record_property("finished", finished)
    assert finished >= SCHEMAS // 2, finished
