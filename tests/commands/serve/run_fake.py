"""`python -m tests.commands.serve.run_fake DELAY PATIENCE`: a server of slow answers.

Prints its address, answers ten words with DELAY seconds before each, drains with PATIENCE.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from commands.serve.listener import bind, url
from commands.serve.run import run_server
from core.settings import Settings
from tests.commands.serve.fake_engine import FakeEngine, Script


def main(delay: float, patience: float) -> None:
    engine = FakeEngine(script=Script(pieces=tuple(f"{n} " for n in range(10)), delay=delay))
    with bind("127.0.0.1", 0) as listener:
        sys.stdout.write(url(listener) + "\n")
        sys.stdout.flush()
        run_server(
            engine,
            replace(Settings(), drain_timeout=patience),
            listener=listener,
            version="0.0.0",
            on_drain=lambda running: _say(f"draining {running}"),
        )
    _say("closed" if engine.closed else "left open")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
