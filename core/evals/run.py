"""One evaluation from names to figures. Imports no arrays until they are needed.

The order matters, as for an engine: a fast BLAS must be in the process before MLX is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from core.engine.backend import import_backend, plan_compute
from core.engine.start import find_model, open_engine
from core.errors import BadModelFiles, DoesNotFit, NotFound, UsageProblem
from core.evals.record import read_record
from core.figures import model_revision
from core.progress import ignore_progress
from core.provenance import is_repo_id
from core.registry.files import printable
from core.registry.resolve import is_path, resolve_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.engine.tokenizer import Tokenizer
    from core.evals.answers import AnswerComparison, Answers
    from core.evals.measure import HeldOutText
    from core.evals.record import Record
    from core.evals.streams import How
    from core.evals.subjects import Subject
    from core.evals.table import ProofTable
    from core.evals.verify import Claim
    from core.machine.compute import ComputePlan
    from core.paths import Paths
    from core.progress import OnProgress
    from core.registry.resolve import ModelRef
    from core.settings import Settings

LENGTH = 512
"""Tokens of a held-out sequence."""


@dataclass(frozen=True, kw_only=True)
class Around:
    """What an evaluation runs in."""

    settings: Settings
    """The merged settings: BLAS, memory budget, folders of models."""
    paths: Paths
    """Our folders and the Hugging Face cache."""
    environ: Mapping[str, str]
    """The environment."""
    on_note: Callable[[str], None]
    """Hears a sentence that is worth knowing."""
    on_progress: OnProgress = ignore_progress
    """Hears of downloads and of measurements."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    layered: bool | None = None
    """Compute layer by layer; None: where a model is large."""
    answers: bool = True
    """Compare generated answers as well."""
    tokens: int = 64
    """Most tokens of a greedy answer."""


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """What an evaluation found."""

    original: ModelRef
    """The model that the other is to be like."""
    model: ModelRef
    """The other."""
    table: ProofTable
    """How far apart they are on held-out text."""
    answers: AnswerComparison | None
    """How their answers differ; None: they were not asked."""
    plan: ComputePlan
    """What it ran on."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A published table, measured again."""

    original: ModelRef
    """The model that it was made from."""
    model: ModelRef
    """The model with the table."""
    record: Record
    """What its folder says."""
    table: ProofTable
    """What was measured."""
    claims: tuple[Claim, ...]
    """The claims of the table, each with what was found."""
    plan: ComputePlan
    """What it ran on."""


def run_eval(original: str, model: str, options: Options, around: Around) -> Evaluated:
    """Compare a model with its original, one of them in memory at a time.

    For the main thread of a process that has not imported MLX yet.

    Args:
        original: what the user calls the model that the other is to be like.
        model: the other.
        options: what is measured.
        around: what it runs in.

    Raises:
        UsageProblem: the models have different tokenizers.
        MlxbunError: a model cannot be found, opened or computed.
    """
    plan = plan_compute(around.settings, around.paths, around.environ, on_note=around.on_note)
    pair = _found(original, plan, around), _found(model, plan, around)
    _import_backend(plan)
    heldout, vocabulary = _text(pair, around)
    names = _names(*pair)
    table = _measured(
        _subject(pair[0], names[0], "original"),
        [_subject(pair[1], names[1], "other")],
        heldout,
        how=_how(plan, around, options.layered),
        vocabulary=vocabulary,
        around=around,
    )
    answers = _compared(pair, options, around) if options.answers else None
    return Evaluated(original=pair[0], model=pair[1], table=table, answers=answers, plan=plan)


def run_verify(
    model: str, *, original: str | None, layered: bool | None, around: Around
) -> Verified:
    """Measure a published table again.

    Args:
        model: what the user calls the model with the table.
        original: the model that it was made from; None: the one that its record names.
        layered: compute layer by layer; None: where a model is large.
        around: what it runs in.

    Raises:
        NotFound: the model has no table, or its original is not on this machine.
        ProofFailed: the table is of another text.
        MlxbunError: a model cannot be found, opened or computed.
    """
    from core.evals.verify import check_claims

    plan = plan_compute(around.settings, around.paths, around.environ, on_note=around.on_note)
    ours = _found(model, plan, around)
    record = _record(ours)
    base = _found(original, plan, around) if original else _original(record, around)
    claimed = record.table
    assert claimed is not None
    if model_revision(base.folder) != record.source.revision:
        _refuse_other(base, record, around, named=original is not None)
    _import_backend(plan)
    heldout, vocabulary = _text((base, ours), around)
    subjects = _claimed_subjects(base, ours, record)
    table = _measured(
        subjects[0],
        subjects[1:],
        heldout,
        how=_how(plan, around, layered),
        vocabulary=vocabulary,
        around=around,
    )
    claims = check_claims(claimed, table)
    for entry in claimed.entries:
        if table.entry(entry.role) is None:
            around.on_note(f"{entry.name} cannot be measured again: its line is not checked.")
    return Verified(original=base, model=ours, record=record, table=table, claims=claims, plan=plan)


def _claimed_subjects(base: ModelRef, ours: ModelRef, record: Record) -> list[Subject]:
    """Return the models of a table: the original, the uniform baseline, and ours."""
    from core.evals.subjects import packed_subject

    assert record.table is not None
    first = _subject(base, base.model_id, "original")
    quantized = record.table.entry("quantized")
    found = [first]
    if record.baseline and quantized is not None:
        found.append(packed_subject(first, record.baseline, name="uniform"))
    role: Literal["quantized", "uniform"] = "quantized" if quantized else "uniform"
    return [*found, _subject(ours, ours.model_id, role)]


def _record(model: ModelRef) -> Record:
    """Return what a model's folder says of its quantization.

    Raises:
        NotFound: it has no table.
        BadModelFiles: it is not of its form.
    """
    record = read_record(model.folder)
    if record is None or record.table is None:
        raise NotFound(
            f"{model.model_id} has no table to verify.",
            hint="`mlxbun quantize` writes one; `mlxbun eval ORIGINAL MODEL` compares any two.",
        )
    if len(record.table.entries) < 2 or record.table.original.role != "original":
        raise BadModelFiles(f"The table of {model.model_id} lacks the original or the model.")
    return record


def _original(record: Record, around: Around) -> ModelRef:
    """Return the model that a record names, in the revision that it names.

    Raises:
        NotFound: it is not on this machine.
    """
    source = record.source
    snapshot = f"{source.model_id}@{source.revision}"
    names = [source.model_id] if source.revision.startswith("files-") else [snapshot]
    # We write names: a record from elsewhere must not choose folders of this disk.
    if is_path(source.model_id) or ("/" in source.model_id and not is_repo_id(source.model_id)):
        raise BadModelFiles(
            f"The record names the folder {printable(source.model_id)} as the original.",
            hint="Name the original's folder with --original.",
        )
    try:
        return resolve_model(
            names[0],
            hub_cache=around.paths.hub_cache,
            model_folders=around.settings.model_folders,
        )
    except NotFound:
        fetch = f"`mlxbun download {snapshot}` fetches it; or name"
        raise NotFound(
            f"The original, {source.model_id} ({source.revision}), is not on this machine.",
            hint=f"{fetch if is_repo_id(source.model_id) else 'Name'} its folder with --original.",
        ) from None


def _refuse_other(base: ModelRef, record: Record, around: Around, *, named: bool) -> None:
    """Refuse another original than the record's, or say that it is one, where the user named it."""
    told = (
        f"{base.model_id} has the revision {model_revision(base.folder)}, and the table is about "
        f"{record.source.model_id} in the revision {record.source.revision}."
    )
    if not named:
        raise NotFound(told, hint="Name the right folder with --original.")
    around.on_note(told)


def _found(name: str, plan: ComputePlan, around: Around) -> ModelRef:
    return find_model(
        name,
        plan=plan,
        settings=around.settings,
        paths=around.paths,
        environ=around.environ,
        on_progress=around.on_progress,
        on_note=around.on_note,
    )


def _import_backend(plan: ComputePlan) -> None:
    """Import what computes, once a fast BLAS is in the process.

    Raises:
        BackendMissing: it cannot be imported.
    """
    import_backend("core.evals.measure")
    if not plan.compile_kernels:
        import mlx.core as mx

        mx.disable_compile()


def _text(pair: Sequence[ModelRef], around: Around) -> tuple[HeldOutText, int]:
    """Return the held-out text in tokens, and how many tokens there are.

    Raises:
        UsageProblem: the models have different tokenizers.
    """
    from core.evals.heldout import heldout_rows

    first, second = (_tokenizer(model, around) for model in pair)
    tokens = first.vocabulary().tokens
    if tokens != second.vocabulary().tokens:
        raise UsageProblem(
            f"{pair[0].model_id} and {pair[1].model_id} have different tokenizers: their "
            "predictions cannot be compared.",
            hint="Compare a model with what was made from it.",
        )
    rows = heldout_rows(first, length=LENGTH)
    for line in rows.notes:
        around.on_note(line)
    return rows, max(tokens.values()) + 1


def _tokenizer(model: ModelRef, around: Around) -> Tokenizer:
    from core.engine.loader import read_tokenizer
    from core.engine.tokenizer_card import CardShelf

    return read_tokenizer(model.folder, CardShelf(around.paths.cache / "tokenizers"))


def _subject(model: ModelRef, name: str, role: Any) -> Subject:
    from core.evals.subjects import folder_subject

    return folder_subject(model.folder, name=name, role=role)


def _names(original: ModelRef, model: ModelRef) -> tuple[str, str]:
    """Return what a table calls two models: different things."""
    if original.model_id != model.model_id:
        return original.model_id, model.model_id
    return str(original.folder), str(model.folder)


def _how(plan: ComputePlan, around: Around, layered: bool | None) -> How:
    from core.engine.device import recommended_working_set
    from core.evals.streams import How

    budget = plan.budget_bytes(around.settings.memory_budget, recommended_working_set())
    return How(budget_bytes=budget, layered=layered, threads=plan.threads)


def _measured(
    original: Subject,
    others: Sequence[Subject],
    heldout: HeldOutText,
    *,
    how: How,
    vocabulary: int,
    around: Around,
) -> ProofTable:
    from core.evals.measure import measure
    from core.evals.streams import Watch

    watch = Watch(on_progress=around.on_progress, on_note=around.on_note)
    return measure(original, others, heldout, how=how, watch=watch, vocabulary=vocabulary)


def _compared(
    pair: Sequence[ModelRef], options: Options, around: Around
) -> AnswerComparison | None:
    """Return how two models' answers differ; one after the other is in memory.

    None: a model that could be measured layer by layer does not fit into memory as a whole.
    """
    from core.evals.answers import compare_answers

    try:
        first, second = (_answers(model, options, around) for model in pair)
    except DoesNotFit as problem:
        around.on_note(f"Answers are not compared: {problem.message}")
        return None
    return compare_answers(first, second, tokens=options.tokens)


def _answers(model: ModelRef, options: Options, around: Around) -> Answers:
    from core.evals.answers import ask

    engine = open_engine(
        str(model.folder),
        settings=replace(around.settings, adapter=None, keep_alive=None),
        paths=around.paths,
        environ=around.environ,
        on_progress=around.on_progress,
        on_note=around.on_note,
    )
    try:
        return ask(engine, tokens=options.tokens)
    finally:
        engine.close()
