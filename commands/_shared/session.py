"""What the door hands to every command: the environment, the folders and the way to speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from commands._shared.console import Console
from core.settings import ResolvedSettings, merge_settings, read_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.paths import Paths


@dataclass(frozen=True, kw_only=True)
class Session:
    """One run of the program."""

    environ: Mapping[str, str]
    """The environment, read once by `mlxbun_cli.app`."""
    paths: Paths
    """Our folders and the Hugging Face cache."""

    def console(self, *, json: bool = False) -> Console:
        """Return the output sink."""
        return Console(json_mode=json)

    def settings(self, **flags: Any) -> ResolvedSettings:
        """Merge defaults, config file, environment and the flags that were given.

        Raises:
            UsageProblem: a value outside its range, naming its layer.
            StoreCorrupt: the config file cannot be read.
        """
        config = read_config(self.paths.config_file)
        return merge_settings(config=config, environ=self.environ, flags=flags)
