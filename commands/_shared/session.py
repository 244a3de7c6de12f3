"""What the door hands to every command: the environment, the folders and the way to speak."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from commands._shared.console import Console
from commands._shared.streams import Streams
from core.offline import without_network
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
    streams: Streams = field(default_factory=Streams)
    """Where the command speaks."""
    quiet: bool = False
    """Notes and progress are not wanted."""

    def made_quiet(self) -> Session:
        """Return the same without notes and progress."""
        return replace(self, quiet=True)

    def taken_offline(self) -> Session:
        """Return the same in an environment in which nothing is fetched or sent."""
        return replace(self, environ=without_network(self.environ))

    def console(self, *, json: bool = False) -> Console:
        """Return the output sink."""
        return Console(json_mode=json, quiet=self.quiet, streams=self.streams)

    def settings(self, **flags: Any) -> ResolvedSettings:
        """Merge defaults, config file, environment and the flags that were given.

        Raises:
            UsageProblem: a value outside its range, naming its layer.
            StoreCorrupt: the config file cannot be read.
        """
        config = read_config(self.paths.config_file)
        return merge_settings(config=config, environ=self.environ, flags=flags)
