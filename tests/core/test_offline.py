"""What forbids the network, and what it is called."""

from __future__ import annotations

import pytest

from core.offline import offline_switch, without_network


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, None),
        ({"HF_HUB_OFFLINE": ""}, None),
        ({"HF_HUB_OFFLINE": "0", "MLXBUN_OFFLINE": "no"}, None),
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"),
        ({"TRANSFORMERS_OFFLINE": "yes"}, "TRANSFORMERS_OFFLINE"),
        ({"MLXBUN_OFFLINE": "true", "HF_HUB_OFFLINE": "1"}, "MLXBUN_OFFLINE"),
    ],
)
def test_variables(environ: dict[str, str], name: str | None) -> None:
    assert offline_switch(environ) == name


def test_the_flag_is_called_by_its_name() -> None:
    environ = without_network({"HOME": "/h", "HF_HUB_OFFLINE": "0"})
    assert offline_switch(environ) == "--offline"
    assert (environ["HOME"], environ["HF_HUB_OFFLINE"]) == ("/h", "1")
