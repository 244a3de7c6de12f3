"""OpenAI's own schemas, with which every body under `/v1` is compared."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator

CHAT = "CreateChatCompletionResponse"
CHAT_CHUNK = "CreateChatCompletionStreamResponse"
TEXT = "CreateCompletionResponse"
TEXT_CHUNK = "CreateCompletionResponse (chunk)"
ERROR = "ErrorResponse"
MODELS = "ListModelsResponse"

NOT_FOUND = b'{"error":{"message":"not found"}}'
"""The answer for unknown paths: fixed, and not an error of OpenAI's."""

_FILE = Path(__file__).parents[2] / "cases" / "openai-schemas.json"
_BODIES = {
    "/v1/chat/completions": (CHAT, CHAT_CHUNK),
    "/v1/completions": (TEXT, TEXT_CHUNK),
}


def check_body(name: str, body: Any) -> None:
    """Assert that a JSON value is valid under the schema of that name."""
    problems = [
        f"{'.'.join(map(str, problem.absolute_path))}: {problem.message}"
        for problem in _validator(name).iter_errors(body)
    ]
    assert not problems, f"{name}: {problems}"


def check_answer(answer: httpx.Response) -> None:
    """Assert that whatever came from a path under `/v1` is what OpenAI's document says."""
    path = answer.request.url.path
    if not path.startswith("/v1/") or answer.request.method == "HEAD":
        return
    if answer.status_code >= 400:
        if answer.content != NOT_FOUND:
            check_body(ERROR, answer.json())
    elif path.startswith("/v1/models"):
        check_body(MODELS, answer.json())
    elif path in _BODIES:
        _check_completion(answer, *_BODIES[path])


class CheckedClient(httpx.Client):
    """A client that checks every answer that is read as a whole."""

    def send(self, request: httpx.Request, *, stream: bool = False, **more: Any) -> httpx.Response:
        """Send a request and check what comes."""
        answer = super().send(request, stream=stream, **more)
        if not stream:
            check_answer(answer)
        return answer


def _check_completion(answer: httpx.Response, whole: str, chunk: str) -> None:
    if not answer.headers["content-type"].startswith("text/event-stream"):
        check_body(whole, answer.json())
        return
    for line in answer.text.split("\n\n"):
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            check_body(ERROR if "error" in event else chunk, event)


@cache
def _validator(name: str) -> Draft202012Validator:
    schemas = _schemas()
    assert name in schemas
    return Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    )


@cache
def _schemas() -> dict[str, Any]:
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    schemas: dict[str, Any] = _with_nulls(document["components"]["schemas"])
    # OpenAI has no schema for the chunks of text completions; what it sends is a whole answer
    # whose finish reason is null until the end.
    schemas[TEXT_CHUNK] = copy.deepcopy(schemas[TEXT])
    choice = schemas[TEXT_CHUNK]["properties"]["choices"]["items"]["properties"]
    choice["finish_reason"] = _or_null(choice["finish_reason"])
    return schemas


def _with_nulls(value: Any) -> Any:
    """Write OpenAPI 3.0's `nullable` in JSON Schema's words."""
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    rest = {key: _with_nulls(item) for key, item in value.items() if key != "nullable"}
    return _or_null(rest) if value.get("nullable") is True else rest


def _or_null(schema: Any) -> Any:
    return {"anyOf": [schema, {"type": "null"}]}
