"""What every test may ask for.

The real starter model (93 MB) is fetched once, by our own code, into a cache that stays between
runs: `.cache/starter` in the repository, or the folder in `MLXBUN_TEST_CACHE`.
"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from core.download import fetch_starter
from core.paths import Paths
from tests.processes import NOWHERE

# On a fresh clone the first text takes a second: hypothesis builds its table of characters.
_UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow])
# A commit passes or fails the same way each time; `make test-random` looks for new examples.
settings.register_profile("mlxbun", _UNHURRIED, derandomize=True)
settings.register_profile("random", _UNHURRIED, derandomize=False, print_blob=True)
settings.load_profile("mlxbun")

# A shell that runs the tests in the background has them ignore Ctrl-C, and every process that they
# start with them. Tests send it, so it means here what it means to a user.
signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def starter_paths() -> Paths:
    """Folders of which the Hugging Face cache is kept between runs."""
    root = Path(os.environ.get("MLXBUN_TEST_CACHE") or REPOSITORY / ".cache" / "starter")
    return Paths(home=root / "home", cache=root / "mlxbun", hub_cache=root / "hub")


@pytest.fixture(scope="session")
def starter_folder(starter_paths: Paths) -> Path:
    """Return the folder of the starter's snapshot."""
    # Always the wheel's model, whatever this machine reaches: tests compare its exact answers.
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_OFFLINE")}
    environ = {**kept, "HF_ENDPOINT": NOWHERE}
    root = starter_paths.hub_cache.parent
    root.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes, and a second download at the same time would be refused.
    with (root / "fetching.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        starter = fetch_starter(
            paths=starter_paths, environ=environ, memory_budget_bytes=0, has_gpu=False
        )
    return starter.folder
