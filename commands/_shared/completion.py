"""What Tab offers for the values of arguments and options: one function for each kind of value.

A parameter names its function by `autocompletion=`; `mlxbun_cli.completion` calls it. A function
yields what the word may become, with or without a help text; it may leave out what does not fit,
and need not. `FILES` or `FOLDERS` among it means: where nothing fits, paths do.
Nothing here opens a network connection, and nothing is written but the index of the models, and of
a job whose process is gone that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError

if TYPE_CHECKING:
    from pathlib import Path

    from commands._shared.session import Session
    from core.memory.opening import Memory
    from core.memory.vault import Vault
    from core.settings import Settings

# No word of a command line holds a NUL.
FILES = "\0files"
FOLDERS = "\0folders"

Candidate = str | tuple[str, str]

_STARTER = ("starter", "A first model.")
_COMMIT_DIGITS = 12  # of a commit, as many as nobody mistakes


@dataclass(frozen=True, kw_only=True)
class Tab:
    """Where Tab was pressed."""

    obj: Session
    """The environment and the folders."""
    params: Mapping[str, Any]
    """What stands before: the words of each argument, the last value of each option."""


Completer = Callable[..., Iterable[Candidate]]
"""Takes `ctx`, the `Tab`, and `incomplete`, the word so far, or one of them, or none."""


def models(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield the models that mlxbun runs, and snapshots behind an `@`; else folders."""
    if not incomplete.startswith((".", "/", "~")):
        found = listed_models(ctx, incomplete)
        yield from found
        yield from _revisions(ctx.obj.paths.hub_cache, incomplete)
        if not found:
            yield _STARTER
    yield FOLDERS


def listed_models(ctx: Tab, incomplete: str) -> list[str]:
    """Return the models that mlxbun runs: those that start so, or have it as a part in any case."""
    from core.registry.library import model_names

    paths, folders = ctx.obj.paths, _settings(ctx).model_folders
    if found := model_names(paths, incomplete, model_folders=folders):
        return found
    part = incomplete.casefold()
    every = model_names(paths, model_folders=folders)
    return [name for name in every if part in name.casefold()]


def first_model(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield models for the first word, and nothing for the prompt behind it."""
    if not ctx.params.get("words"):
        yield from models(ctx, incomplete)


def two_models(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield models for the first two words."""
    if len(ctx.params.get("words") or []) < 2:
        yield from models(ctx, incomplete)


def bench_words(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield a model, or `history` and a model."""
    before = ctx.params.get("words") or []
    if not before:
        yield "history", "Earlier runs."
    if before in ([], ["history"]):
        yield from models(ctx, incomplete)


def repositories(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield the model repositories in the Hugging Face cache, whole or not."""
    from core.registry.places import canonical, is_unfinished
    from core.registry.places import repositories as folders

    for place in map(canonical, folders(ctx.obj.paths.hub_cache)):
        yield place.name, "The download is not finished." if is_unfinished(place) else ""
    yield from _revisions(ctx.obj.paths.hub_cache, incomplete)


def downloads(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield `starter` and the repositories that are here: to be updated, or gone on with."""
    yield _STARTER
    yield from repositories(ctx, incomplete)


def model_types(ctx: Tab) -> Iterator[Candidate]:
    """Yield the types of the models on this disk."""
    from core.registry.library import library

    cards = library(ctx.obj.paths, _settings(ctx))
    yield from sorted({card.model_type for card in cards if card.model_type})


def quantizations() -> Iterator[Candidate]:
    """Yield what `mlxbun ls --quant` knows."""
    yield from ("2", "3", "4", "5", "6", "8")
    yield "mixed", "Several widths."
    yield "none", "Not quantized."
    yield from ("bf16", "fp16", "fp32")
    yield from ("affine", "mxfp4", "nvfp4", "mxfp8", "fp8", "awq", "gptq", "bitnet")


def servers(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield ports and pids of the servers that run here; to a letter, their models."""
    from core.servers import read_servers

    running = read_servers(ctx.obj.paths.run_folder).alive
    served = [server.model for server in running]
    for server in running:
        port = server.url.rpartition(":")[2]
        yield port, f"{server.model} (port)"
        yield str(server.pid), f"{server.model} (pid)"
        if incomplete and not incomplete.isdigit() and served.count(server.model) == 1:
            yield server.model, server.url


def sessions(ctx: Tab) -> Iterator[Candidate]:
    """Yield the conversations, the latest first."""
    from core.sessions.store import SessionStore

    for file in SessionStore(ctx.obj.paths.sessions_folder).files():
        yield file.name


def job_ids(ctx: Tab) -> Iterator[Candidate]:
    """Yield the jobs, the newest first."""
    from core.jobs.store import JobStore

    for job in JobStore(ctx.obj.paths.jobs_folder).recent():
        yield job.id, f"{job.kind}, {job.status}"


def unfinished_job_ids(ctx: Tab) -> Iterator[Candidate]:
    """Yield the jobs that wait or run, the newest first."""
    from core.jobs.store import JobStore

    for job in JobStore(ctx.obj.paths.jobs_folder).recent():
        if not job.is_over:
            yield job.id, f"{job.kind}, {job.status}"


def job_kinds() -> Iterator[Candidate]:
    """Yield the sorts of jobs."""
    from core.jobs.job import KINDS

    yield from KINDS


def setting_names() -> Iterator[Candidate]:
    """Yield the settings with their meanings."""
    from dataclasses import fields

    from core.settings import Settings

    for field in fields(Settings):
        yield field.name, field.metadata["help"]


def setting_values(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield values of the setting that was named."""
    from core.settings import choices_of

    name = str(ctx.params.get("name", ""))
    if name == "model":
        yield from models(ctx, incomplete)
    elif name == "model_folders":
        yield FOLDERS
    elif name in _OF_SETTINGS:
        yield from _OF_SETTINGS[name]()
    else:
        yield from choices_of(name)


def prefill() -> Iterator[Candidate]:
    """Yield the values of --prefill."""
    yield "latency", "A long prompt yields to the streams that run."
    yield "throughput", "Not so much."


def true_false() -> Iterator[Candidate]:
    """Yield the values of a switch that is a setting."""
    yield from ("true", "false")


def on_off() -> Iterator[Candidate]:
    """Yield the values of a switch that reads as one."""
    yield from ("on", "off")


def dequantize() -> Iterator[Candidate]:
    """Yield the values of --dequantize."""
    yield "auto", "On a CPU with a fast BLAS, when they fit."
    yield "on", "Always."
    yield "off", "Never."


def blas() -> Iterator[Candidate]:
    """Yield the values of --blas."""
    yield "auto", "The fastest one there is."
    yield "off", "MLX's own."
    yield FILES


def kv_bits() -> Iterator[Candidate]:
    """Yield the values of --kv-bits."""
    yield from ("8", "4")


def macs(incomplete: str) -> Iterator[Candidate]:
    """Yield chips; once one is begun, also with their sizes of memory."""
    from core.fit.machines import load_skus
    from core.units import GIB

    skus = load_skus()
    yield from dict.fromkeys(sku.chip for sku in skus)
    if incomplete:
        yield from dict.fromkeys(f"{sku.chip} {sku.memory_bytes // GIB}" for sku in skus)


def hosts() -> Iterator[Candidate]:
    """Yield interfaces to listen on."""
    yield "127.0.0.1", "This machine alone."
    yield "0.0.0.0", "The whole network."


def folders() -> Iterator[Candidate]:
    """Yield nothing but folders."""
    yield FOLDERS


def gguf_files(incomplete: str) -> Iterator[Candidate]:
    """Yield the GGUF files in the folder that the word names; else files and folders."""
    from pathlib import Path

    start, slash, _ = incomplete.rpartition("/")
    with suppress(OSError, ValueError, RuntimeError):
        names = sorted(path.name for path in Path(start + slash).expanduser().iterdir())
        yield from (start + slash + name for name in names if name.lower().endswith(".gguf"))
    yield FILES


def import_widths() -> Iterator[Candidate]:
    """Yield the values of --requantize."""
    yield from ("2", "3", "4", "5", "6", "8")


def import_types() -> Iterator[Candidate]:
    """Yield the values of --dtype."""
    yield from ("float16", "bfloat16")


def shells() -> Iterator[Candidate]:
    """Yield the shells that mlxbun completes in."""
    yield from ("bash", "zsh", "fish")


_OF_SETTINGS: Mapping[str, Completer] = {
    "blas": blas,
    "dequantize": dequantize,
    "host": hosts,
    "prefill": prefill,
}


def train_words(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield a model, or `watch` and a folder."""
    before = ctx.params.get("words") or []
    if not before:
        yield "watch", "A training that runs or has run."
        yield from models(ctx, incomplete)
    elif before == ["watch"]:
        yield FOLDERS


def adapters(ctx: Tab) -> Iterator[Candidate]:
    """Yield the adapters that are kept; else folders."""
    from core.train.shelf import list_adapters

    for card in list_adapters(ctx.obj.paths):
        yield card.name, card.base or ""
    yield FOLDERS


def data_sets() -> Iterator[Candidate]:
    """Yield files and folders."""
    yield FILES


def train_methods() -> Iterator[Candidate]:
    """Yield the methods of a training."""
    yield "sft", "From answers."
    yield "dpo", "From preferences, against the base model."
    yield "orpo", "From preferences and answers at once."


def rank_scalings() -> Iterator[Candidate]:
    """Yield how ranks are given to layers."""
    yield "constant", "The same to all."
    yield "by_bits", "By the bits of their weights."
    yield "by_kl", "By what their quantization changed."


def target_modules(incomplete: str) -> Iterator[Candidate]:
    """Yield the linear layers that are trained, behind those that stand before a comma."""
    from core.train.config import PROJECTIONS

    before = incomplete[: incomplete.rfind(",") + 1]
    yield from (before + name for name in PROJECTIONS if name not in before.split(","))


def loss_scopes() -> Iterator[Candidate]:
    """Yield which tokens are learned."""
    yield "response", "The answers."
    yield "full", "The prompts too."


def lr_schedules() -> Iterator[Candidate]:
    """Yield the schedules of the learning rate."""
    yield "constant", "The same to the end."
    yield "cosine", "Down towards 0."


def widths() -> Iterator[Candidate]:
    """Yield the widths that weights can have."""
    from core.quantize.form import WIDTHS

    yield from map(str, WIDTHS["affine"])


def candidate_widths(incomplete: str) -> Iterator[Candidate]:
    """Yield widths behind those before a comma."""
    before = incomplete[: incomplete.rfind(",") + 1]
    yield from (before + str(width) for width in widths() if width not in before.split(","))


def group_sizes() -> Iterator[Candidate]:
    """Yield how many weights can share a scale."""
    from core.quantize.form import GROUPS

    yield from map(str, sorted({size for sizes in GROUPS.values() for size in sizes}))


def quantize_modes() -> Iterator[Candidate]:
    """Yield the modes of a quantization."""
    yield "affine", "2, 3, 4, 5, 6 or 8 bits, with a scale and a bias for each group."
    yield "mxfp4", "4-bit floats, groups of 32."
    yield "nvfp4", "4-bit floats, groups of 16."
    yield "mxfp8", "8-bit floats, groups of 32."


def quantize_forms() -> Iterator[Candidate]:
    """Yield the values of `fit --quantize`."""
    yield from (f"{width}bit" for width in widths())
    yield from ("mxfp4", "nvfp4", "mxfp8")
    yield "4.5bpw", "Mixed precision: bits per weight of the whole model."


def rotation_forms() -> Iterator[Candidate]:
    """Yield what a rotation turns."""
    yield "residual", "The residual stream and value channels."
    yield "values", "Value channels alone."


def sensitivity_references() -> Iterator[Candidate]:
    """Yield what the sensitivity of layers is measured against."""
    yield "bf16", "The model as it is."
    yield from (("8", "A uniform width."), ("4", "A uniform width."))


def calibration_mixes() -> Iterator[Candidate]:
    """Yield the calibration mixes; else files."""
    from core.quantize.calibration import MIXES

    yield MIXES[0], "All domains."
    yield from MIXES[1:]
    yield FILES


def memory_sizes() -> Iterator[Candidate]:
    """Yield usual amounts of memory."""
    yield from ("4GB", "6GB", "8GB", "12GB", "16GB", "24GB", "32GB")


def repo_types() -> Iterator[Candidate]:
    """Yield the types of repositories."""
    yield "model", "A model or an adapter."
    yield "dataset", "A data set."


def articles(ctx: Tab) -> Iterator[Candidate]:
    """Yield the names of the articles in the memory vault."""
    with suppress(MlxbunError):
        yield from _vault_of(ctx).names().articles


def pages(ctx: Tab) -> Iterator[Candidate]:
    """Yield the names of the articles and of the pages of documentation."""
    with suppress(MlxbunError):
        names = _vault_of(ctx).names()
        yield from (*names.articles, *names.reference)


def anchors(ctx: Tab) -> Iterator[Candidate]:
    """Yield the sections of the article that was named."""
    from core.memory.article import parse

    with suppress(MlxbunError):
        page = _vault_of(ctx).read(str(ctx.params.get("article", "")))
        for section in parse(page.text).sections:
            yield section.anchor, section.heading


def memory_models(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield the models that can write articles."""
    yield "rules", "Fixed rules, no model."
    yield from models(ctx, incomplete)


def memory_eval_models(ctx: Tab, incomplete: str) -> Iterator[Candidate]:
    """Yield the models that `memory eval` measures."""
    yield "oracle", "Knows the labels of the corpus."
    yield "noisy", "The same, with mistakes."
    yield from memory_models(ctx, incomplete)


def memory_parts() -> Iterator[Candidate]:
    """Yield the parts of the corpus of `memory eval`."""
    yield "project", "An invented project over several months."
    yield "other", "Conversations about other things."
    yield "unseen", "Conversations for which no rules were written."


def waiting_runs(ctx: Tab) -> Iterator[Candidate]:
    """Yield the runs that wait for a review."""
    from core.memory.review import waiting

    with suppress(MlxbunError):
        for run in waiting(_memory_of(ctx).git):
            yield run.run, ", ".join(run.articles)


def memory_scopes() -> Iterator[Candidate]:
    """Yield what a search of the memory vault covers."""
    yield "all", "Articles and documentation."
    yield "articles", "What was written from conversations and notes."
    yield "reference", "The documentation of mlxbun."


def _vault_of(ctx: Tab) -> Vault:
    return _memory_of(ctx).vault


def _memory_of(ctx: Tab) -> Memory:
    """Return the memory vault that is meant."""
    from pathlib import Path

    from core.memory.opening import open_memory

    named = ctx.params.get("vault")
    return open_memory(ctx.obj.paths, Path(named) if named else None)


def _revisions(hub_cache: Path, incomplete: str) -> Iterator[Candidate]:
    """Yield `NAME@REVISION` for the snapshots of the repository before the `@`, if there is one."""
    from core.registry.places import name_of, snapshots
    from core.registry.places import repositories as folders

    name, at, _ = incomplete.partition("@")
    meant = [one for one in folders(hub_cache) if name_of(one) == name] if at else []
    for place in (place for repository in meant for place in snapshots(repository)):
        if place.commit is not None and place.problem is None:
            commit = place.commit[:_COMMIT_DIGITS]
            yield from ((f"{name}@{ref}", commit) for ref in place.refs)
            yield f"{name}@{commit}", ", ".join(place.refs) or "Superseded."


def _settings(ctx: Tab) -> Settings:
    """Return the settings; where they are wrong, the defaults: another command says so."""
    from core.settings import Settings

    try:
        return ctx.obj.settings().values
    except MlxbunError:
        return Settings()
