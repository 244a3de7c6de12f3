"""The official OpenAI SDK on the list of models and on request ids."""

from __future__ import annotations

import openai
import pytest


def test_the_list(sdk: openai.OpenAI) -> None:
    listed = sdk.models.list()
    assert [model.id for model in listed] == ["acme/tiny-1", "acme/other", "acme/seeing"]
    assert {model.owned_by for model in listed} == {"mlxbun"}
    assert {model.object for model in listed} == {"model"}
    assert str(listed._request_id).startswith("req_")


@pytest.mark.parametrize(("name", "serving"), [("acme/tiny-1", True), ("acme/other", False)])
def test_one_model(sdk: openai.OpenAI, name: str, serving: bool) -> None:
    model = sdk.models.retrieve(name)
    assert (model.id, model.owned_by, model.created) == (name, "mlxbun", 1760000000)
    assert (model.model_extra or {})["serving"] is serving


def test_an_unknown_model(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refusal:
        sdk.models.retrieve("acme/none")
    error = refusal.value
    assert (error.type, error.code, error.param) == (
        "invalid_request_error",
        "model_not_found",
        "model",
    )
    assert "acme/none" in error.message
    assert str(error.request_id).startswith("req_")


def test_the_id_of_an_answer(sdk: openai.OpenAI) -> None:
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "user", "content": "hi"}
    ]
    answer = sdk.chat.completions.create(model="m", messages=messages)
    assert str(answer._request_id).startswith("req_")
    mine = sdk.with_options(default_headers={"x-request-id": "mine"})
    assert mine.chat.completions.create(model="m", messages=messages)._request_id == "mine"
    with mine.chat.completions.create(model="m", messages=messages, stream=True) as stream:
        assert stream.response.headers["x-request-id"] == "mine"
