"""The card: what is known and nothing else, and whose text is whose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.repocard import metadata_load

from core.errors import BadModelFiles, UsageProblem
from core.provenance import EvalFigure, Origin, Provenance, Value, write_provenance
from core.upload.card import BEGIN, END, owner_of, updated
from tests.caches import add_model, safetensors
from tests.core.upload.conftest import MODEL, Desk, adapter_files, fill

COMMIT = "0123456789abcdef0123456789abcdef01234567"
QUANTIZED = {
    "config.json": json.dumps(
        {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "max_position_embeddings": 8192,
            "quantization": {"bits": 4, "group_size": 64, "mode": "affine"},
        }
    ).encode(),
    "model.safetensors": safetensors(
        {
            "a.weight": ("U32", (64, 16)),
            "a.scales": ("F16", (64, 2)),
            "a.biases": ("F16", (64, 2)),
            "norm.weight": ("F16", (128,)),
        }
    ),
}
BASE_CARD = b"---\nlicense: apache-2.0\nlanguage:\n- en\n---\n# Base\n"


def _card(desk: Desk, **changes: Any) -> str:
    text = desk.plan(**changes).card.text
    assert text is not None
    return text


def _front(text: str, tmp_path: Path) -> dict[str, Any]:
    """Return the block as the Hub's library reads it."""
    file = tmp_path / "card.md"
    file.write_text(text, encoding="utf-8")
    found = metadata_load(file)
    assert ModelCard(text).data.to_dict() == (found or {})  # type: ignore[no-untyped-call]
    return found or {}


def _rows(text: str) -> dict[str, str]:
    """Return the rows of the card's tables of two columns."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1] for cells in lines if len(cells) == 2}


def test_a_model_of_which_nothing_is_known(desk: Desk, tmp_path: Path) -> None:
    text = _card(desk)
    assert _front(text, tmp_path) == {
        "library_name": "mlx",
        "pipeline_tag": "text-generation",
        "tags": ["mlx"],
    }
    assert "license" not in text.lower()
    assert "base" not in text.lower()
    assert "None" not in text
    assert "## Evaluation" not in text
    assert _rows(text)["parameters"] == "300k (300,000)"
    for line in ("mlxbun serve me/name", 'mlx_lm.generate --model me/name --prompt "Hello"'):
        assert line in text.splitlines()


def test_a_quantized_model(desk: Desk, tmp_path: Path) -> None:
    folder = fill(tmp_path / "q", QUANTIZED)
    add_model(desk.paths.hub_cache, "org/base", commit=COMMIT, weights={"README.md": BASE_CARD})
    write_provenance(
        folder,
        Provenance(
            base=Origin(repo_id="org/base", revision=COMMIT),
            relation="quantized",
            recipe={"calibration": "none"},
            figures=(
                EvalFigure(name="perplexity", value=7.512345678, base_value=7.25, data="wiki"),
                EvalFigure(name="size", value=4.5, unit="GB"),
            ),
            versions={"mlxbun": "0.1.0"},
        ),
    )
    text = _card(desk, source=folder)
    assert _front(text, tmp_path) == {
        "license": "apache-2.0",
        "language": "en",
        "library_name": "mlx",
        "pipeline_tag": "text-generation",
        "base_model": "org/base",
        "base_model_relation": "quantized",
        "tags": ["mlx", "4-bit"],
        "quantization": {"bits": 4, "group_size": 64, "mode": "affine"},
    }
    assert (
        f"quantized from [org/base](https://huggingface.co/org/base) (revision `{COMMIT}`)." in text
    )
    rows = _rows(text)
    assert (rows["calibration"], rows["bits"], rows["group size"]) == ("none", "4", "64")
    assert rows["parameters"] == "8.32k (8,320)"
    assert rows["weights"] == "4.86 kB, 4.68 bits a parameter"
    assert rows["context"] == "8,192 tokens"
    assert "| perplexity | 7.51235 | 7.25 | wiki |" in text.splitlines()
    assert "| size | 4.5 GB |  |  |" in text.splitlines()
    assert "- mlxbun 0.1.0" in text.splitlines()


def test_a_proof_has_its_errors_and_its_baseline(desk: Desk, tmp_path: Path) -> None:
    folder = fill(tmp_path / "q", {**QUANTIZED, "quantization.json": b"{}"})
    figures = (
        EvalFigure(name="KL", value=0.05, unit="nats", error=0.001, uniform_value=0.09),
        EvalFigure(name="perplexity", value=7.5, base_value=7.25, uniform_value=7.75),
    )
    write_provenance(folder, Provenance(relation="quantized", figures=figures))
    lines = _card(desk, source=folder).splitlines()
    assert "|  | value | ± (SE) | base model | uniform |" in lines
    assert "| KL | 0.05 nats | 0.001 nats |  | 0.09 nats |" in lines
    assert "| perplexity | 7.5 |  | 7.25 | 7.75 |" in lines
    assert "quantization.json" in [file.name for file in desk.plan(source=folder).files]


def test_an_adapter(desk: Desk, tmp_path: Path) -> None:
    folder = fill(tmp_path / "a", adapter_files())
    add_model(desk.paths.hub_cache, "org/base", weights={"README.md": BASE_CARD})
    text = _card(desk, source=folder)
    assert _front(text, tmp_path) == {
        "license": "apache-2.0",
        "language": "en",
        "library_name": "mlx",
        "pipeline_tag": "text-generation",
        "base_model": "org/base",
        "base_model_relation": "adapter",
        "datasets": ["org/data"],
        "tags": ["mlx", "lora"],
    }
    rows = _rows(text)
    expected = {
        "method": "LoRA", "rank": "8", "scale": "20", "dropout": "0", "layers trained": "8",
        "learning rate": "1e-05", "iterations": "600", "data": "org/data",
    }  # fmt: skip
    assert {name: rows[name] for name in expected} == expected
    assert 'mlx_lm.generate --model org/base --adapter-path FOLDER --prompt "Hello"' in text


def test_a_training_of_all_weights(desk: Desk, tmp_path: Path) -> None:
    folder = fill(tmp_path / "a", adapter_files(fine_tune_type="full"))
    text = _card(desk, source=folder)
    front = _front(text, tmp_path)
    assert (front["base_model_relation"], front["tags"]) == ("finetune", ["mlx"])
    assert _rows(text)["method"] == "all weights"
    assert "rank" not in _rows(text)


def test_places_on_this_machine_stay_here(desk: Desk, tmp_path: Path) -> None:
    cached = f"/home/jane/.cache/huggingface/hub/models--org--base/snapshots/{COMMIT}"
    folder = fill(tmp_path / "a", adapter_files(model=cached, data="/home/jane/secret/chats"))
    plan = desk.plan(source=folder)
    text = plan.card.text or ""
    assert "jane" not in text
    assert "secret" not in text
    assert _rows(text)["data"] == "chats"
    assert f"(revision `{COMMIT}`)" in text
    assert plan.notes == (
        "adapter_config.json (model, data) tells where things lie on this machine.",
    )
    folder = fill(tmp_path / "b", adapter_files(model="/home/jane/llama"))
    text = _card(desk, source=folder)
    assert "base_model" not in _front(text, tmp_path)
    assert "mlx_lm.generate" not in text


def test_a_data_set(desk: Desk, tmp_path: Path) -> None:
    row = b'{"messages": []}\n'
    folder = fill(tmp_path / "d", {"train.jsonl": row * 1500, "valid.jsonl": row * 100})
    text = _card(desk, source=folder, to="org/data")
    assert _front(text, tmp_path) == {"size_categories": ["1K<n<10K"]}
    rows = _rows(text)
    assert (rows["rows"], rows["columns"]) == ("1,600", "messages")
    assert "| train.jsonl | 1,500 | 25.5 kB |" in text
    assert 'load_dataset("org/data")' in text
    assert "mlx_lm.lora --train --model MODEL --data org/data" in text
    branch = _card(desk, source=folder, to="org/data", revision="v2")
    assert 'load_dataset("org/data", revision="v2")' in branch
    assert "mlx_lm.lora" not in branch


def test_what_was_forced(desk: Desk, tmp_path: Path) -> None:
    folder = fill(tmp_path / "g", {"weights.gguf": b"x", "notes.txt": b"x"})
    text = _card(desk, source=folder, wanted="model")
    assert _front(text, tmp_path) == {}
    assert "mlx_lm" not in text
    assert "mlxbun download me/name" in text


def test_a_branch_has_commands_of_its_own(desk: Desk) -> None:
    text = _card(desk, revision="v2")
    assert "mlxbun serve me/name@v2" in text.splitlines()
    assert "mlx_lm.generate" not in text


def test_foreign_words_cannot_break_the_card(desk: Desk, tmp_path: Path) -> None:
    evil = f"x | y\n# z {END} <script> `a`"
    recipe: dict[str, Value] = {"m": evil, f"n{END}": 1}
    write_provenance(desk.folder, Provenance(recipe=recipe, versions={evil: evil}))
    text = _card(desk)
    assert text.count(END) == text.count(BEGIN) == 1
    assert "<script>" not in text
    assert owner_of(text) == "ours"
    assert not any(line.startswith("# z") for line in text.splitlines())


def test_broken_provenance_is_told(desk: Desk) -> None:
    (desk.folder / "mlxbun.json").write_text("[]")
    with pytest.raises(BadModelFiles, match=r"mlxbun\.json cannot be used"):
        desk.plan()


def test_a_vision_model_and_one_that_embeds(desk: Desk, tmp_path: Path) -> None:
    config = {"model_type": "x", "vision_config": {"depth": 2}}
    fill(desk.folder, {"config.json": json.dumps(config).encode()})
    assert _front(_card(desk), tmp_path)["pipeline_tag"] == "image-text-to-text"
    config = {"model_type": "bert", "architectures": ["BertModel"]}
    fill(desk.folder, {"config.json": json.dumps(config).encode()})
    assert "pipeline_tag" not in _front(_card(desk), tmp_path)


# Whose card it is


def test_owners() -> None:
    assert owner_of(None) == owner_of("") == owner_of("---\na: b\n---\n\n") == "nobody"
    assert owner_of("# Mine") == owner_of("---\na: b\n---\nText") == "somebody"
    assert owner_of(f"x\n{BEGIN}\ny\n{END}\n") == "ours"
    for broken in (BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}", f"{BEGIN}x"):
        assert owner_of(broken) == "somebody"


def test_a_card_that_somebody_wrote_is_uploaded_as_it_is(desk: Desk) -> None:
    fill(desk.folder, {"README.md": b"# Mine\n"})
    plan = desk.plan()
    assert plan.card.text is None
    assert plan.card.why == "README.md is somebody's own: it is uploaded as it is."
    assert "README.md" in [file.name for file in plan.files]
    assert desk.plan(exclude=("README.md",)).card.why == "No card is written (--exclude)."


def test_only_our_part_of_a_card_is_renewed(desk: Desk) -> None:
    mine = f"---\nlicense: mit\nmore: kept\n---\nBefore\n{BEGIN}\nold\n{END}\nAfter\r\n"
    fill(desk.folder, {"README.md": mine.encode()})
    plan = desk.plan()
    text = plan.card.text or ""
    assert text.startswith(f"---\nlicense: mit\nmore: kept\n---\nBefore\n{BEGIN}\n# me/name\n")
    assert text.endswith(f"\n{END}\nAfter\r\n")
    assert "old" not in text
    assert "README.md" not in [file.name for file in plan.files]
    assert updated(text, desk.plan().card.card) == text  # type: ignore[arg-type]


def test_a_block_without_a_text_is_kept(desk: Desk, tmp_path: Path) -> None:
    """mlx-lm's conversion leaves the base model's block and nothing else."""
    block = "---\nlicense: mit\nbase_model: org/base\nlibrary_name: mlx\n---\n"
    fill(desk.folder, {"README.md": block.encode()})
    text = _card(desk)
    assert text.startswith(f"{block}\n{BEGIN}\n")
    assert "made from [org/base](https://huggingface.co/org/base)." in text
    assert _front(text, tmp_path)["license"] == "mit"


def test_no_card(desk: Desk) -> None:
    several: tuple[dict[str, Any], ...] = (
        {"card": False}, {"exclude": ("README.md",)}, {"exclude": ("*.md",)},
    )  # fmt: skip
    for changes in several:
        plan = desk.plan(**changes)
        assert (plan.card.text, plan.card.card) == (None, None)
    fill(desk.folder, {"README.md": f"{BEGIN}\nold\n{END}\n".encode()})
    plan = desk.plan(card=False)
    assert plan.card.text is None
    assert "README.md" in [file.name for file in plan.files]


def test_another_readme_stands_in(desk: Desk) -> None:
    fill(desk.folder, {"readme.MD": b"# Mine\n"})
    plan = desk.plan()
    assert plan.card.why == "readme.MD stands in for README.md: no card is written."


def test_requests_that_contradict_themselves(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="exclude each other"):
        desk.plan(card=False, keep_card=True)
    with pytest.raises(UsageProblem, match=r"--exclude that fits README\.md"):
        desk.plan(exclude=("*.md",), keep_card=True)
    with pytest.raises(UsageProblem, match="needs a message"):
        desk.plan(message=" ")
    file = fill(tmp_path / "d", {"a.jsonl": b"{}\n"}) / "a.jsonl"
    with pytest.raises(UsageProblem, match="this is a file"):
        desk.plan(source=file, keep_card=True)
    for selected in ({"include": ("*",)}, {"exclude": ("*.md",)}):
        with pytest.raises(UsageProblem, match="choose files of a folder"):
            desk.plan(source=file, **selected)  # type: ignore[arg-type]
    snapshot = add_model(desk.paths.hub_cache, "org/base", config=MODEL["config.json"])
    with pytest.raises(UsageProblem, match="into a snapshot"):
        desk.plan(source=snapshot, keep_card=True)


def test_planning_writes_nothing(desk: Desk, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    desk.plan(keep_card=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert desk.hub.log == []
