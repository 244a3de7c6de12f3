"""Token ids beyond a model's rows are never looked up, as MLX does not check indices.

Models with fewer ids than their tokenizer, or more. Embedding and output head always have as many
rows as each other: mlx-lm's architectures make both from one number and check the files' shapes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.engine.engine import Engine
from core.engine.events import Finished, TextDelta
from core.engine.request import (
    ChatPrompt,
    GenerationRequest,
    GrammarSpec,
    SamplingParams,
    TextPrompt,
)
from core.engine.tokenizer import Tokenizer
from core.errors import BadRequest
from core.fit.weights import Tensor, vocabulary_rows
from tests.cases import round_2
from tests.core.engine.conftest import OpenEngine
from tests.tiny import EOS, llama_config, make_model

(CASE,) = round_2("vocabulary")


def request(text: str, **changes: Any) -> GenerationRequest:
    sampling = SamplingParams(**({"temperature": 0.0} | changes.pop("sampling", {})))
    given: dict[str, Any] = {"prompt": TextPrompt(text=text), "max_tokens": 8} | changes
    return GenerationRequest(sampling=sampling, **given)


def finish(engine: Engine, asked: GenerationRequest) -> tuple[str, Finished]:
    events = list(engine.submit(asked))
    end = events[-1]
    assert isinstance(end, Finished)
    return "".join(event.text for event in events if isinstance(event, TextDelta)), end


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A model with fewer rows than its tokenizer has ids: it has `!` and `?`, and no letters."""
    return make_model(tmp_path / "short", config=llama_config(vocab_size=CASE["model_rows"]))


def test_a_prompt_beyond_the_model_is_refused_by_its_ids(
    open_tiny: OpenEngine, short: Path
) -> None:
    engine, body = open_tiny(short), CASE["body"]
    sampling = {"presence_penalty": float(body["presence_penalty"])}
    with pytest.raises(BadRequest) as refusal:
        engine.submit(request(body["prompt"], sampling=sampling, max_tokens=body["max_tokens"]))
    assert refusal.value.field == "prompt"
    assert refusal.value.message == (
        "The prompt has the token ids 120, 121, 122, but this model's vocabulary has the ids 0 to "
        "63."
    )
    _, end = finish(engine, request("!?", sampling=sampling, max_tokens=40))
    assert end.usage.completion_tokens == 40


def test_a_conversation_beyond_the_model_is_refused(open_tiny: OpenEngine, short: Path) -> None:
    chat = ChatPrompt(messages=({"role": "user", "content": "!"},))
    with pytest.raises(BadRequest, match=r"has the token ids .* and \d+ more") as refusal:
        open_tiny(short).submit(request("", prompt=chat))
    assert refusal.value.field == "messages"


def test_a_short_model_never_looks_up_what_only_the_tokenizer_has(
    open_tiny: OpenEngine, short: Path
) -> None:
    engine = open_tiny(short)
    # EOS is 256, and the model has 64 ids.
    assert any("No token that ends an answer" in note for note in engine.info.notes)
    warm = {
        "temperature": 1.0,
        "seed": 1,
        "xtc_probability": 1.0,
        "xtc_threshold": 0.01,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.5,
    }
    with pytest.raises(BadRequest, match=r"The prompt has no tokens\."):
        engine.submit(request(""))
    _, end = finish(engine, request("!", sampling=warm, logprobs=5))
    assert end.reason == "length"
    for position in end.logprobs or ():
        assert 0 <= position.chosen.token < 64
    with pytest.raises(BadRequest, match="logit_bias names token 64"):
        engine.submit(request("!", sampling={"logit_bias": ((64, 1.0),)}))


def test_a_form_uses_only_tokens_of_the_model(open_tiny: OpenEngine, short: Path) -> None:
    form = GrammarSpec(kind="regex", source="[!-Z]{3}")
    text, _ = finish(open_tiny(short), request("!", grammar=form))
    assert len(text) == 3


def test_tokens_beyond_the_tokenizer_have_no_text(open_tiny: OpenEngine, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "more", config=llama_config(vocab_size=300))
    only_new = {"logit_bias": tuple((token, 1000.0) for token in range(259, 300))}
    text, end = finish(open_tiny(folder), request("ab", sampling=only_new, logprobs=2))
    assert text == ""
    assert [position.chosen.token >= 259 for position in end.logprobs or ()] == [True] * 8
    assert {position.chosen.text for position in end.logprobs or ()} == {""}


def test_the_headers_limit_a_tokenizer(short: Path) -> None:
    tokenizer = Tokenizer.load(short, eos_ids=EOS, shelf=None)
    assert tokenizer.size == 64
    assert tokenizer.eos_ids == frozenset()
    assert tokenizer.token_id("<|im_end|>") is None
    assert tokenizer.known([63, 64, -1, 5]) == [63, 5]
    assert tokenizer.unknown([63, 5]) is None


def test_the_largest_embedding_counts() -> None:
    shapes = {
        "thinker.model.embed_tokens.weight": (151_936, 8),
        "talker.model.embed_tokens.weight": (3072, 8),
        "thinker.visual.embeddings.weight": (999_999, 8),
        "thinker.model.layers.0.output.weight": (999_999, 8),
    }
    tensors = [
        Tensor(name=name, dtype="BF16", shape=shape, nbytes=0) for name, shape in shapes.items()
    ]
    assert vocabulary_rows(tensors) == 151_936
    assert vocabulary_rows(tensors[3:]) is None
