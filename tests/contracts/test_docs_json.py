"""docs/json.md tells every key of the JSON that commands print, and no other.

`tests.processes.mlxbun` checks the JSON of every command that any test runs; here is what all of
them print together.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from commands._shared.console import SCHEMA
from core.evals.record import Record, Source, write_record
from core.evals.table import ProofTable
from core.figures import FigureStore, model_revision
from core.paths import Paths
from scripts.docs.jobs import BROKEN, DONE, RUNNING, add_jobs, waiting_job
from scripts.docs.library import add_adapter, add_library
from scripts.docs.verbs import read_app
from tests.commands.memory.vaults import CHAT, add_chat, programs
from tests.core.train.runs import sums, write_rows
from tests.core.upload.hub import UploadHub
from tests.fakehub import Fault, weights
from tests.ggufs import tiny_llama
from tests.jsondocs import EVERY, FAILED, check_object, leaves, objects_in, page
from tests.processes import SCRIPT, environ_of, mlxbun, wait_until
from tests.tiny import make_model

Environ = dict[str, str]

# What takes more than a few commands to come about; other tests see to it.
_RARE = {
    ("serve", "cut"),
    ("download", "waiting"),
    ("download", "anew"),
    ("download", "unlisted"),
    ("upload", "retry"),
    ("upload", "note"),
    ("chat", "tool_call"),  # a model that calls tools
    ("quantize", "proof"),  # a result that misses a limit
    ("memory ingest", "note"),
    ("memory eval", "note"),
}
# What `memory eval` finds in some models.
_PERFECT = (
    "wrong_merges",
    "split",
    "lost_old",
    "not_marked",
    "wrongly_marked",
    "lost_sentences",
    "invented_links",
    "invalid_citations",
    "leaks",
    "obeyed",
)
_RARE_KEYS = {
    "results[].measured.measured_at",
    "results[].measured.loaded_as",
    "results[].measured.decode_tps",
    "results[].measured.prefill_tps",
    "results[].measured.prefill_tokens",
    "results[].measured.ttft_s",
    "results[].notes[]",
    "items[].skipped[]",
    "items[].skipped[].path",
    "items[].skipped[].reason",
    "items[].failed[]",
    "items[].failed[].path",
    "items[].failed[].reason",
    "kept[].unique[]",
    "models[].architectures[]",
    "reviews[]",  # of `memory status`: runs that wait
    "to_fix[]",
    "still_running[]",
    "still_running[].pid",
    "still_running[].url",
    "still_running[].model",
    "notes[]",
    "table.notes[]",
    "*",  # of a metric
    *(f"last_run.{key}" for key in ("started", "finished", "outcome", "reason", "run", "commit")),
    "left_out[]",
    "skipped[]",
    "skipped[].reason",
    "skipped[].count",
    "remaining[]",
    "kept[]",
    "changed[]",
    "left[]",
    "items[].replaces[]",
    "elsewhere[]",
    *(f"{name}[]" for name in _PERFECT),
    "warnings[]",
}


class Recorder:
    """Runs commands and remembers which keys they have printed."""

    def __init__(self, environ: Environ, home: Path) -> None:
        self.environ = environ
        self.home = home
        self.seen: set[tuple[str, str, str]] = set()

    def run(
        self, *arguments: str, stdin: str = "", codes: tuple[int, ...] = (0,), path: str = ""
    ) -> None:
        """Run one command with --json."""
        words = (*arguments, "--json")
        environ = self.environ | ({"PATH": path} if path else {})
        done = mlxbun(*words, environ=environ, stdin=stdin, cwd=self.home)
        assert done.returncode in codes, done.stderr
        self.take(_verb(arguments), done.stdout)

    def take(self, verb: str, stdout: str) -> None:
        """Remember what was printed."""
        found = objects_in(stdout)
        assert found, verb
        for each in found:
            check_object(verb, each)
            event = each.get("event", "")
            self.seen |= {(verb, event, path) for path, _ in leaves(each)}


def _verb(arguments: tuple[str, ...]) -> str:
    return " ".join(arguments[: 2 if " ".join(arguments[:2]) in page() else 1])


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """Run every verb."""
    home = tmp_path_factory.mktemp("home")
    cache = home / ".cache" / "huggingface" / "hub"
    add_library(cache)
    add_adapter(home / "lora")
    make_model(home / "tiny")
    with UploadHub() as hub:
        hub.account("hf_ada", "ada")
        hub.add("acme/pond", {"config.json": b"{}", "model.safetensors": weights(400_000)})
        recorder = Recorder(environ_of(home, HF_ENDPOINT=hub.url, HF_TOKEN="hf_ada"), home)
        _run_offline(recorder)
        _run_training(recorder)
        _run_jobs(recorder)
        _run_memory(recorder)
        hub.faults = [Fault(name="model.safetensors", cut=100_000)]
        recorder.run("download", "acme/pond")
        recorder.run("upload", "lora", "--to", "ada/lora", "--revision", "draft")
        recorder.run("upload", "lora", "--to", "ada/lora", "--revision", "draft")
        _serve(recorder)
        yield recorder


def _run_offline(recorder: Recorder) -> None:
    run = recorder.run
    run("ls")
    run("ls", "--nope", codes=(2,))
    run("config", "set", "batch", "4")
    run("config", "set", "model_folders", str(recorder.home / "nowhere"))
    run("config", "show")
    run("doctor")
    run("generate", "./tiny", "hello", "--max-tokens", "4")
    run("chat", "./tiny", "--max-tokens", "4", stdin="hello\n/nonsense\n", codes=(2,))
    run("fit", "acme/River-8B-Instruct-4bit", "--sku", "M1 8", codes=(4,))
    run("fit", "./tiny", "--quantize", "4bit", "--dequantize", "off")
    run("fit", "acme/Echo-1B-Speech", "./tiny", "./lora", codes=(7,))
    run("gc", "--keep", "1")
    run("gc", "--yes")
    make_model(recorder.home / "tiny-8bit", bits=8)
    run("eval", "./tiny", "./tiny-8bit", "--max-tokens", "2")
    _publish(recorder.home)
    run("eval", "--verify", "./tiny-8bit", "--original", "./tiny")
    quantize = ("quantize", "./tiny", "--override", "*.o_proj=keep", "--blas", "off")
    run(*quantize, "--dry-run", "--target-bpw", "8")
    run(*quantize, "--dry-run", "--group-size", "128")
    run(*quantize, "--no-proof")
    run("bench", "./tiny", "--prompts", "16", "--rows", "1", "--tokens", "4", "--repeats", "2")
    run("bench", "history")
    write_rows(recorder.home / "text", [{"text": "Rivers run to the sea."}])
    run("perplexity", "./tiny", "--data", "text/train.jsonl", "--sequence-length", "8")
    run("upload", "lora", "--to", "ada/lora", "--dry-run")
    tiny_llama().write(recorder.home / "tiny.gguf")
    run("import", "tiny.gguf")


def _publish(home: Path) -> None:
    """Make a record of what `eval` has just found, with a baseline of four bits."""
    (kept,) = FigureStore(home / ".mlxbun" / "bench.db").evaluations()
    table = msgspec.convert(json.loads(kept.found)["table"], ProofTable)
    original, model = table.entries
    published = replace(table, entries=(original, replace(model, role="quantized")))
    form = {"bits": 4, "group_size": 32, "mode": "affine"}
    record = Record(
        source=Source(model_id="tiny", revision=model_revision(home / "tiny")),
        recipe={},
        calibration=None,
        table=published,
        baseline={"model.layers.0.mlp.up_proj": form},
    )
    write_record(home / "tiny-8bit", record)


def _run_training(recorder: Recorder) -> None:
    home, run = recorder.home, recorder.run
    write_rows(home / "rows", [*sums(4), {"prompt": 1}])
    pair = {"prompt": "1?", "chosen": "=2", "rejected": "no"}
    write_rows(home / "pairs", [pair, pair])
    kept = str(home / ".cache" / "mlxbun" / "adapters" / "one")
    more = ("--iters", "2", "--rank", "2", "--blas", "off")
    run("train", "./tiny", "--data", "rows", "--dry-run", *more)
    run("train", "./tiny", "--data", "rows", "--adapter-path", kept, *more)
    run("train", "./tiny", "--data", "pairs", "--method", "orpo", "--adapter-path", "two", *more)
    run("train", "./tiny", "--data", "pairs", "--method", "dpo", "--adapter-path", "three", *more)
    run("fuse", "./tiny", "--adapter", "one", "--output", "fused")
    run("adapters", "list")
    run("adapters", "inspect", "one")


def _run_jobs(recorder: Recorder) -> None:
    add_jobs(recorder.home)
    recorder.run("jobs", "list")
    recorder.run("jobs", "show", DONE)
    recorder.run("jobs", "logs", DONE)
    recorder.run("jobs", "logs", BROKEN, "--follow", codes=(1,))
    with waiting_job(recorder.home, recorder.environ):
        recorder.run("jobs", "cancel", RUNNING)


def _run_memory(recorder: Recorder) -> None:
    home, run = recorder.home, recorder.run
    (home / "notes").mkdir()
    (home / "notes" / "Lyon.md").write_text("# Lyon\n\nSee [[Bern]] and [[Reference/fit]].\n")
    run("memory", "init", "--from", "notes")
    add_chat(Paths.from_environ(recorder.environ), *CHAT)
    run("memory", "ingest")
    run("memory", "synthesize", "--dry-run")
    run("memory", "synthesize", "--model", "rules")
    run("memory", "list")
    run("memory", "search", "Bluebird")
    run("memory", "read", "Ana", "--as-of", f"{datetime.now():%Y-%m-%d}")
    run("memory", "toc", "Ana")
    run("memory", "section", "Ana", "references")
    run("memory", "links", "Lyon")
    (home / ".mlxbun" / "wiki" / "articles" / "Basel.md").write_text("On the way to [[Lyon]].\n")
    run("memory", "links", "Lyon")
    run("memory", "links", "Basel")
    run("memory", "history", "Ana")
    run("memory", "diff", "Ana")
    run("memory", "blame", "Ana")
    run("memory", "why", "Ana works at Bluebird.")
    run("memory", "doctor")
    run("memory", "open", "Ana", "--print")
    run("memory", "revert", "Ana")
    run("memory", "forget", "Heron", "--source")
    _review(recorder)
    cron = programs(home / "programs")
    run("memory", "schedule", path=cron)
    run("memory", "status", path=cron)
    run("memory", "unschedule", path=cron)
    run("memory", "eval", "rules", "--part", "unseen")


def _review(recorder: Recorder) -> None:
    """Let a run wait, look at it, and decide."""
    add_chat(Paths.from_environ(recorder.environ), "My brother Tom lives in Oslo. Tom plays chess.")
    recorder.run("memory", "synthesize", "--model", "rules", "--review")
    recorder.run("memory", "review")
    branches = ["git", "for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/mlxbun"]
    vault = recorder.home / ".mlxbun" / "wiki"
    found = subprocess.run(branches, cwd=vault, capture_output=True, text=True, check=True)
    waiting = found.stdout.strip()
    recorder.run("memory", "review", waiting)
    recorder.run("memory", "review", waiting, "--accept", "1", "--reject", "rest")


def _serve(recorder: Recorder) -> None:
    log = recorder.home / "served"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [SCRIPT, "serve", "./tiny", "--port", "0", "--json"],
            env=recorder.environ, cwd=recorder.home, stdout=out, stderr=subprocess.DEVNULL,
        ) as process,
    ):  # fmt: skip
        try:
            wait_until(lambda: b'"listening"' in log.read_bytes())
            recorder.run("ps")
            recorder.run("stop")
            assert process.wait(30) == 0
        finally:
            process.kill()
    recorder.take("serve", log.read_text(encoding="utf-8"))


def test_every_verb_has_its_section() -> None:
    _, verbs = read_app()
    assert set(page()) == {EVERY, FAILED, "bench history", *(verb.name for verb in verbs)}


def test_every_key_that_is_told_is_printed(recorder: Recorder) -> None:
    seen = {(verb, event, _any_layer(path)) for verb, event, path in recorder.seen}
    told = {
        (verb, event, key)
        for verb, section in page().items()
        for event, table in section.tables.items()
        for key in table
        if verb not in (EVERY, FAILED) and not _is_rare(verb, event, key)
    }
    assert not told - seen, sorted(told - seen)


def _is_rare(verb: str, event: str, key: str) -> bool:
    # Whether a file is on its way when progress is told depends on the moment.
    on_its_way = event == "progress" and key.startswith("files[]")
    # A proof is what `eval` prints, too.
    proof = verb == "quantize" and key.startswith("table.")
    return on_its_way or proof or (verb, event) in _RARE or key in _RARE_KEYS


def _any_layer(path: str) -> str:
    if path.startswith("table.entries[].domains."):
        return re.sub(r"domains\.\w+", "domains.*", path)
    for start in ("results[].kv.layers.", "summary.", "recipe.", "config."):
        if path.startswith(start):
            return f"{start}*[]" if path.endswith("[]") else f"{start}*"
    return path


def test_every_object_carries_the_version(recorder: Recorder) -> None:
    kinds = {(verb, event) for verb, event, _ in recorder.seen}
    assert all((verb, event, "schema") in recorder.seen for verb, event in kinds)
    assert f"| `schema` | integer | {SCHEMA} |" in (
        Path(__file__).resolve().parents[2] / "docs" / "json.md"
    ).read_text(encoding="utf-8")


def test_the_last_line_says_how_it_ended(recorder: Recorder) -> None:
    ends = {verb for verb, event, _ in recorder.seen if event == "done"}
    memory = {"memory ingest", "memory synthesize", "memory eval"}
    assert ends == {"download", "upload", "chat", "serve", "train", "quantize"} | memory


def test_what_goes_wrong_is_told_alike_by_all(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    for verb in (verb.name.split() for verb in read_app()[1]):
        done = mlxbun(*verb, "--json", "--no-such-option", environ=environ)
        (told,) = objects_in(done.stdout)
        assert done.returncode == told["error"]["exit_code"] == 2
        assert told["event"] == "failed"
        assert done.stderr == f"mlxbun: {told['error']['message']}\n  {told['error']['hint']}\n"
        assert json.loads(done.stdout) == told
