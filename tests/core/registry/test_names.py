"""Names as people paste them."""

from __future__ import annotations

import pytest

from core.errors import UsageProblem
from core.registry.names import plain_name, repository_name


@pytest.mark.parametrize(
    ("pasted", "name"),
    [
        ("https://huggingface.co/org/name", "org/name"),
        ("https://huggingface.co/org/name/", "org/name"),
        ("http://www.huggingface.co/org/name?library=mlx#usage", "org/name"),
        ("HTTPS://HuggingFace.co/Org/Name", "Org/Name"),
        ("hf.co/org/name", "org/name"),
        ("https://hf.co/org/name/tree/main", "org/name"),
        ("https://huggingface.co/org/name/tree/refs%2Fpr%2F1", "org/name@refs/pr/1"),
        ("huggingface.co/org/name/tree/v2", "org/name@v2"),
        ("org/name/", "org/name"),
        ("org/name", "org/name"),
        ("org/name@v2", "org/name@v2"),
        ("/", "/"),
        ("~/", "~"),
        ("./models/tiny//", "./models/tiny"),
        ("datasets/org/name", "datasets/org/name"),
        ("llama", "llama"),
    ],
)
def test_an_address_becomes_a_name(pasted: str, name: str) -> None:
    assert plain_name(pasted) == name


@pytest.mark.parametrize(
    ("pasted", "word"),
    [
        ("https://example.com/org/name", "HF_ENDPOINT"),
        ("https://huggingface.co/", "org/name"),
        ("https://huggingface.co/org", "org/name"),
        ("https://huggingface.co/org/name/blob/main/config.json", "org/name"),
        ("https://huggingface.co/org/name/tree", "org/name"),
        ("https://[::1", "HF_ENDPOINT"),
        ("https://user@huggingface.co.evil.example/org/name", "HF_ENDPOINT"),
    ],
)
def test_other_addresses_are_refused(pasted: str, word: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        plain_name(pasted)
    assert word in str(caught.value.hint)


def test_a_dataset_is_not_a_model() -> None:
    address = "https://huggingface.co/datasets/org/rows"
    with pytest.raises(UsageProblem, match="is a dataset, not a model"):
        plain_name(address)
    assert repository_name(address) == "datasets/org/rows"
