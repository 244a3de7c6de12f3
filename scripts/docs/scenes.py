"""What is shown of each verb: the commands, where they run, and what came of it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.docs.jobs import DONE, RUNNING, add_jobs, waiting_job
from scripts.docs.library import add_adapter, add_library
from scripts.docs.memory import add_memory, environment
from scripts.docs.places import ROOT
from scripts.docs.screen import Screen
from scripts.docs.terminal import COLUMNS, LINES, Press, run_in_terminal
from scripts.docs.training import (
    add_kept_adapter,
    add_rows,
    add_starter_adapter,
    add_three_bits,
)
from tests.core.upload.hub import UploadHub
from tests.fakehub import weights
from tests.ggufs import tiny_llama
from tests.processes import NOWHERE, serving
from tests.tiny import make_model

_USER = "/home/ada"  # what the folder that a scene plays in is called in its picture
_STARTER = ROOT / ".cache" / "starter" / "hub" / "models--mlxbun--SmolLM2-135M-Instruct-4bit"
_PROMPT = ">\b\x1b[2C"  # as prompt_toolkit writes `> `
_TOKEN = "hf_ada"  # known to the Hub of the scene
_QUESTION = "What is the capital of France?"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One picture."""

    verb: str
    """Of what."""
    commands: tuple[str, ...]
    """What is typed at the shell."""
    steady: bool = True
    """It comes out the same on every machine and every day."""
    starter: bool = False
    """It plays with the real starter model, alone in the cache."""
    served: bool = False
    """A server runs meanwhile."""
    presses: tuple[Press, ...] = ()
    """What is typed while the last command runs."""


MEMORY = {
    "init": ("mlxbun memory init",),
    "status": ("mlxbun memory status",),
    "list": ("mlxbun memory list | head -5",),
    "search": ("mlxbun memory search bluebird",),
    "read": ("mlxbun memory read Ana",),
    "toc": ("mlxbun memory toc Reference/fit",),
    "section": ("mlxbun memory section Ana references",),
    "links": ("mlxbun memory links Ana",),
    "history": ("mlxbun memory history Ana",),
    "diff": ("mlxbun memory diff Ana",),
    "blame": ("mlxbun memory blame Ana",),
    "why": ("mlxbun memory why 'works at Bluebird'",),
    "revert": ("mlxbun memory revert Ana --dry-run", "mlxbun memory revert Ana"),
    "forget": ("mlxbun memory forget Porto --source --dry-run",),
    "open": ("mlxbun memory open Ana --print",),
    "doctor": ("mlxbun memory doctor",),
    "ingest": ("mlxbun memory ingest",),
    "synthesize": (
        "mlxbun memory synthesize --dry-run",
        "mlxbun memory synthesize --model rules",
    ),
    "review": ("mlxbun memory review",),
    "schedule": ("mlxbun memory schedule --at 03:00", "mlxbun memory status"),
    "unschedule": ("mlxbun memory schedule --at 03:00", "mlxbun memory unschedule"),
    "eval": ("mlxbun memory eval rules --part unseen --quiet",),
    "mcp": ("mlxbun memory mcp < request.json",),
}
"""What is shown of the verbs of `mlxbun memory`."""

SCENES = (
    Scene(
        verb="serve",
        commands=("mlxbun serve",),
        steady=False,
        starter=True,
        presses=(Press(after="curl http", keys="\x03"),),
    ),
    Scene(
        verb="generate",
        commands=(f'mlxbun generate "{_QUESTION}" --temperature 0',),
        steady=False,
        starter=True,
    ),
    Scene(
        verb="chat",
        commands=("mlxbun chat --temperature 0 --stats",),
        steady=False,
        starter=True,
        presses=(
            Press(after=_PROMPT, keys=f"{_QUESTION}\r"),
            Press(after=_PROMPT, keys="And of Italy?\r"),
            Press(after=_PROMPT, keys="\x04"),
        ),
    ),
    Scene(verb="ls", commands=("mlxbun ls", "mlxbun ls --min-size 4GB --sort size")),
    Scene(
        verb="download",
        commands=("mlxbun download acme/Pond-1M --dry-run", "mlxbun download acme/Pond-1M"),
        steady=False,
    ),
    Scene(
        verb="import",
        commands=("mlxbun import Brook-1M.Q4_0.gguf", "mlxbun ls Brook"),
    ),
    Scene(
        verb="fit",
        commands=(
            "mlxbun fit acme/River-8B-Instruct-4bit --sku 'M4 16'",
            "mlxbun fit --sku 'M4 Max 64'",
        ),
    ),
    Scene(verb="gc", commands=("mlxbun gc", "mlxbun gc --yes River")),
    Scene(
        verb="upload",
        commands=(
            "mlxbun upload notes-lora --to ada/notes-lora --dry-run --no-card",
            "mlxbun upload notes-lora --to ada/notes-lora --private",
        ),
        steady=False,
    ),
    Scene(
        verb="train",
        commands=(
            "mlxbun train starter --data capitals --adapter-path capitals-lora --iters 10 --rank 8",
        ),
        steady=False,
        starter=True,
    ),
    Scene(
        verb="quantize",
        commands=(
            "mlxbun quantize pond --override '*.down_proj=8' --dry-run",
            "mlxbun quantize pond --override '*.down_proj=8'",
        ),
        steady=False,
    ),
    Scene(
        verb="fuse",
        commands=("mlxbun fuse SmolLM2 --adapter capitals-lora --output SmolLM2-capitals",),
        steady=False,
        starter=True,
    ),
    Scene(
        verb="bench",
        commands=(
            "mlxbun bench --prompts 128 --rows 1,4 --tokens 16 --repeats 3",
            "mlxbun bench history",
        ),
        steady=False,
        starter=True,
    ),
    Scene(
        verb="eval",
        commands=("mlxbun eval SmolLM2 ./SmolLM2-3bit",),
        steady=False,
        starter=True,
    ),
    Scene(
        verb="perplexity",
        commands=("mlxbun perplexity starter --num-samples 6",),
        steady=False,
        starter=True,
    ),
    Scene(verb="ps", commands=("mlxbun ps",), steady=False, starter=True, served=True),
    Scene(verb="stop", commands=("mlxbun stop",), steady=False, starter=True, served=True),
    Scene(verb="doctor", commands=("mlxbun doctor",), steady=False),
    Scene(verb="adapters list", commands=("mlxbun adapters list",), steady=False),
    Scene(verb="adapters inspect", commands=("mlxbun adapters inspect notes-lora",)),
    Scene(verb="jobs list", commands=("mlxbun jobs list",)),
    Scene(verb="jobs show", commands=(f"mlxbun jobs show {DONE[:4]}",)),
    Scene(verb="jobs logs", commands=(f"mlxbun jobs logs {DONE[:4]}",)),
    Scene(verb="jobs cancel", commands=(f"mlxbun jobs cancel {RUNNING[:4]}",)),
    *(
        Scene(verb=f"memory {verb}", commands=commands, steady=False)
        for verb, commands in MEMORY.items()
    ),
    Scene(verb="config show", commands=("mlxbun config set batch 4", "mlxbun config show")),
    Scene(
        verb="config set",
        commands=("mlxbun config set batch 4", "mlxbun config set batch many"),
    ),
)


def play(scene: Scene) -> list[str]:
    """Run the commands of a scene and return what its terminal shows."""
    screen = Screen(COLUMNS, LINES)
    with ExitStack() as stage:
        home = Path(stage.enter_context(tempfile.TemporaryDirectory(prefix="mlxbun-")))
        hub = stage.enter_context(UploadHub())
        environ = _set_stage(scene, home, hub)
        if scene.verb.startswith("jobs"):
            add_jobs(home)
        if scene.verb == "jobs cancel":
            stage.enter_context(waiting_job(home, environ))
        if scene.served:
            stage.enter_context(_server(environ, home))
        for number, command in enumerate(scene.commands):
            last = number == len(scene.commands) - 1
            shown = run_in_terminal(
                ["sh", "-c", command],
                environ=environ,
                cwd=home,
                presses=scene.presses if last else (),
            )
            blank = "\r\n" if number else ""
            screen.feed(f"{blank}\x1b[2m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n")
            screen.feed(shown.replace(str(home), _USER))
    return screen.lines()


def _set_stage(scene: Scene, home: Path, hub: UploadHub) -> dict[str, str]:
    """Fill the home and the Hub, and return the environment."""
    cache = home / ".cache" / "huggingface" / "hub"
    if scene.starter:
        shutil.copytree(_STARTER, cache / _STARTER.name, symlinks=True)
    else:
        add_library(cache)
    if scene.verb == "import":
        tiny_llama().write(home / "Brook-1M.Q4_0.gguf")
    if scene.verb == "upload":
        add_adapter(home / "notes-lora")
    if scene.verb == "train":
        add_rows(home / "capitals")
    if scene.verb == "quantize":
        make_model(home / "pond")
    if scene.verb == "fuse":
        add_starter_adapter(home / "capitals-lora")
    if scene.verb == "eval":
        (snapshot,) = (cache / _STARTER.name / "snapshots").iterdir()
        add_three_bits(snapshot, home / "SmolLM2-3bit")
    if scene.verb.startswith("adapters"):
        add_kept_adapter(home)
    if scene.verb.startswith("memory"):
        add_memory(home, scene.verb)
    files = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}"}
    hub.account(_TOKEN, "ada")
    hub.add("acme/Pond-1M", {**files, "model.safetensors": weights(2_000_000)})
    environ = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "HF_ENDPOINT": hub.url if scene.verb in ("download", "upload") else NOWHERE,
        "HF_TOKEN": _TOKEN,
    }
    return environment(home, environ, scene.verb)


@contextmanager
def _server(environ: Mapping[str, str], home: Path) -> Iterator[None]:
    with serving(environ=environ, log=home / "log"):
        yield
