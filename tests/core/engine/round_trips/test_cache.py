"""The prompt cache under an agent: a turn computes what the last one did not, and nothing else.

The models are random. What they write is forced on them, token by token, through the seam where
grammars sit; all else is the engine as it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from core.engine.engine import Engine
from core.engine.events import Finished
from core.engine.prompt import Prompt
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.round_trips.agent import (
    SYSTEM,
    TURNS,
    Message,
    Model,
    calls_of,
    common,
    folded,
    intended,
    results,
    sent_back,
    starts_with,
)
from tests.core.engine.round_trips.cases import CASES, Case
from tests.tiny import llama_config, make_model, write_tokenizer

SLIDING = {
    "model_type": "gemma3_text",
    "head_dim": 16,
    "sliding_window": 32,
    "sliding_window_pattern": 2,
    "query_pre_attn_scalar": 16,
}
HYBRID = {
    "model_type": "lfm2",
    "norm_eps": 1e-5,
    "conv_bias": False,
    "conv_L_cache": 3,
    "block_dim": 64,
    "block_ff_dim": 128,
    "block_multiple_of": 32,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False,
    "full_attn_idxs": [1],
    "layer_types": ["conv", "full_attention"],
}
BY_NAME = {case.name: case for case in CASES}
Turned = tuple[Prompt, list[int], Finished]
"""A turn's prompt, the answer's tokens with its end, and how it ended."""


class Script:
    """A `Constraint` that lets one text come and no other."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def complete(self) -> bool:
        return False

    def accept(self, token: int) -> None:
        assert token == self._tokens[self._at]
        self._at += 1

    def fill(self, mask: NDArray[Any], row: int) -> bool:
        if self._at == len(self._tokens):
            return False
        token = self._tokens[self._at]
        mask[row] = 0
        mask[row].view(np.uint32)[token // 32] = np.uint32(1 << token % 32)
        return True

    def restart(self, tokens: Sequence[int]) -> None:
        self._at = len(tokens)


@pytest.fixture
def open_case(open_tiny: OpenEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that opens an engine on a family's model, and the family's text side."""

    def open_engine(case: Case, **architecture: Any) -> tuple[Engine, Model]:
        model, folder = Model(case), tmp_path / case.name
        config = llama_config(
            vocab_size=256 + len(case.tokens),
            max_position_embeddings=8192,
            eos_token_id=[256 + n for n in range(len(case.ends))],
            **architecture,
        )
        make_model(folder, config=config)
        write_tokenizer(folder, chat_template=case.template, special=case.tokens)
        engine = open_tiny(folder)
        monkeypatch.setattr(engine, "_preparer", model.preparer)
        model.preparer._prompts._find_boundaries = not engine._loaded.cuttable
        return engine, model

    return open_engine


def play(engine: Engine, model: Model, monkeypatch: pytest.MonkeyPatch) -> list[Turned]:
    """Run the agent's conversation."""
    history: list[Message] = [SYSTEM]
    turns = []
    prepare = model.preparer.prepare
    for number, turn in enumerate(TURNS):
        if turn.asked:
            history.append({"role": "user", "content": turn.asked})
        written = model.writes(history, intended(turn, model.case, number))
        request = model.request(history)
        ready = replace(prepare(request), make_constraint=partial(Script, written))
        monkeypatch.setattr(model.preparer, "prepare", lambda _, ready=ready: ready)
        *pieces, end = list(engine.submit(request))
        monkeypatch.setattr(model.preparer, "prepare", prepare)
        assert isinstance(end, Finished)
        answer = folded(pieces)
        wanted = turn.calls if model.case.parallel else turn.calls[:1]
        assert calls_of(answer) == list(wanted)
        assert end.reason == ("tool_calls" if wanted else "stop")
        assert end.usage.completion_tokens == len(written)
        turns.append((ready.prompt, written, end))
        back = sent_back(answer)
        history += [back, *results(back)]
    return turns


@pytest.mark.parametrize("name", ["hermes", "harmony", "mistral", "deepseek", "gemma", "untold"])
def test_all_that_is_shown_again_is_cached(
    open_case: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, model = open_case(BY_NAME[name])
    turns = play(engine, model, monkeypatch)
    assert turns[0][2].usage.cached_tokens == 0
    for before, (asked, _, end) in pairwise(turns):
        # The end mark's KV is not computed: the answer is over when it comes.
        computed = [*before[0].tokens, *before[1][:-1]]
        assert end.usage.cached_tokens >= min(common(computed, asked.tokens), len(asked.tokens) - 1)
        assert end.usage.prompt_tokens == len(asked.tokens)
    # ... and the template shows most of it again, or there would be nothing to be seen here.
    assert turns[1][2].usage.cached_tokens >= len(turns[0][0].tokens) - 8


@pytest.mark.parametrize("layers", [SLIDING, HYBRID], ids=["sliding", "hybrid"])
@pytest.mark.parametrize("name", ["hermes", "glm", "gemma", "pythonic"])
def test_what_cannot_be_cut_is_cached_up_to_the_generation_prompt(
    open_case: Any, name: str, layers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, model = open_case(BY_NAME[name], **layers)
    turns = play(engine, model, monkeypatch)
    kept: list[list[int]] = []
    for prompt, written, end in turns:
        tokens = prompt.tokens
        shared = [len(one) for one in kept if starts_with(tokens, one) and len(one) < len(tokens)]
        assert end.usage.cached_tokens >= max(shared, default=0)
        assert bool(shared) == bool(kept)
        assert prompt.boundaries
        kept += [tokens[:length] for length in prompt.boundaries]
        kept.append([*tokens, *written[:-1]])
