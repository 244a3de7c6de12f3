"""`python -m tests.commands.serve.run_fake DELAY PATIENCE SUBMIT`: a server of slow answers.

Prints its address, takes SUBMIT seconds to accept a request, answers ten words with DELAY seconds
before each, and drains with PATIENCE. SIGUSR1 loses its engine.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace

from commands._shared.failure import exit_code
from commands.serve.listener import bind, url
from commands.serve.run import run_server
from core.engine.generation import Generation
from core.engine.request import GenerationRequest
from core.errors import MlxbunError
from core.settings import Settings
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.live import serve_options


class _SlowEngine(FakeEngine):
    submit_seconds = 0.0

    def submit_choices(self, request: GenerationRequest) -> list[Generation]:
        time.sleep(self.submit_seconds)
        return super().submit_choices(request)


def main(delay: float, patience: float, submit: float) -> None:
    engine = _SlowEngine(script=Script(pieces=tuple(f"{n} " for n in range(10)), delay=delay))
    engine.submit_seconds = submit
    options = serve_options(dict(os.environ))
    signal.signal(signal.SIGUSR1, lambda *_: _lose(engine))
    with bind("127.0.0.1", 0) as listener:
        sys.stdout.write(url(listener) + "\n")
        sys.stdout.flush()
        run_server(
            engine,
            replace(Settings(), drain_timeout=patience),
            listener=listener,
            version="0.0.0",
            paths=options.paths,
            environ=options.environ,
            host=options.host,
            other_models=dict,
            on_drain=lambda running: _say(f"draining {running}"),
            on_cut=lambda running: _say(f"cut {running}"),
        )
    _say("closed" if engine.closed else "left open")


def _lose(engine: FakeEngine) -> None:
    engine.alive, engine.lost = False, True


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(*(float(argument) for argument in sys.argv[1:]))
    except MlxbunError as error:
        sys.exit(exit_code(error))
