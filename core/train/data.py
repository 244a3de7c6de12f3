"""The data of a training: found, read, checked and tokenized. Pure Python.

A folder holds training rows in `train.jsonl`, `train.csv` or `train.parquet`, and perhaps rows for
validation in a file `valid` of one of these kinds; a single file is all training rows, of which
`valid_split` keeps a share for validation.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from core.errors import NotFound, UsageProblem
from core.paths import expanded
from core.registry.files import printable
from core.rows.examples import FORMATS, Example, RowProblem, format_of, read_example
from core.rows.files import SUFFIXES, BrokenRow, RawRow, read_rows
from core.train.encode import Encoded, EncodedPair, Encoder, Item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from core.engine.tokenizer import Tokenizer
    from core.train.config import TrainConfig

# Training rows that are measured where there is no validation.
_MEASURED_ROWS, _MEASURED_TOKENS = 32, 8192
_EARLY_STOPPING = "early_stopping needs validation data and steps_per_eval."
_SHOWN = 5  # broken rows that a sentence lists


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What a data set is, at a glance."""

    n_train: int
    """Rows to learn from, broken ones included."""
    n_valid: int
    """Rows of the validation file, broken ones included."""
    format: str
    """One of `FORMATS`, or `unknown`."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Rows that are ready to be learned."""

    format: str
    """One of `FORMATS`."""
    train: tuple[Item, ...]
    """To learn from; at least one."""
    valid: tuple[Item, ...]
    """To measure on; may be empty."""
    broken: tuple[BrokenRow, ...]
    """Rows that were left out."""

    @property
    def measured(self) -> tuple[Item, ...]:
        """Rows that the loss is measured on: for validation, else the first to learn from."""
        if self.valid:
            return self.valid
        sums = accumulate(map(item_length, self.train))
        count = sum(total <= _MEASURED_TOKENS for total in sums)
        return self.train[: min(_MEASURED_ROWS, max(1, count))]

    @property
    def train_tokens(self) -> int:
        """Tokens of the training rows, both answers of a pair included."""
        return sum(map(item_length, self.train))

    @property
    def cut(self) -> int:
        """Sequences that were longer than `max_seq_length`, of both parts."""
        items = (part for item in (*self.train, *self.valid) for part in sequences(item))
        return sum(part.cut for part in items)


def sequences(item: Item) -> tuple[Encoded, ...]:
    """Return the one sequence of a row, or the two of a pair."""
    return (item.chosen, item.rejected) if isinstance(item, EncodedPair) else (item,)


def item_length(item: Item) -> int:
    """Return the tokens of a row."""
    return sum(len(part.tokens) for part in sequences(item))


def inspect_dataset(path: Path) -> Inspection:
    """Count a data set's rows and tell its format, without a model.

    Raises:
        NotFound: there is no training file.
        UsageProblem: a file cannot be read.
    """
    train, valid = find_files(path)
    rows = list(read_rows(train))
    first = next((row for row in rows if isinstance(row, RawRow)), None)
    return Inspection(
        n_train=len(rows),
        n_valid=sum(1 for _ in read_rows(valid)) if valid else 0,
        format=format_of(first.values) if first else "unknown",
    )


def check_data(config: TrainConfig) -> tuple[Path, Path | None, str]:
    """Find the data of a training and refuse what no model could learn from: reads a row or two.

    Returns:
        The training file, the validation file, and the format of the rows.

    Raises:
        NotFound: there is no training file.
        UsageProblem: as `load_dataset`, as far as that is known without a tokenizer.
    """
    assert config.data_dir is not None
    train_file, valid_file = find_files(expanded(config.data_dir))
    if valid_file and config.valid_split:
        raise UsageProblem(
            f"valid_split does nothing: {valid_file.name} is the validation data.",
            hint="Leave it out, or take that file away.",
        )
    measured = config.steps_per_eval and (valid_file or config.valid_split)
    if config.early_stopping and not measured:
        raise UsageProblem(_EARLY_STOPPING)
    return train_file, valid_file, _detect(train_file, config)


def load_dataset(config: TrainConfig, tokenizer: Tokenizer) -> Dataset:
    """Read and tokenize the data of a training.

    Raises:
        NotFound: there is no training file.
        UsageProblem: no row can be used, a row is broken and `strict` is set, or the rows are not
            of a kind that the method learns from.
    """
    train_file, valid_file, form = check_data(config)
    encoder = Encoder(
        tokenizer,
        max_seq_length=config.max_seq_length,
        response_only=config.method == "dpo" or config.response_only,
    )
    train, broken = _encode_file(train_file, form, encoder)
    valid, more = _encode_file(valid_file, form, encoder) if valid_file else ([], [])
    broken = [*broken, *more]
    if broken and config.strict:
        raise UsageProblem(_list_broken(broken), hint="Mend them, or leave strict out.")
    if not train:
        raise UsageProblem(f"No row of {train_file} can be used. {_list_broken(broken)}")
    if config.valid_split:
        train, valid = _split(train, config)
    if valid and config.val_max_examples:
        valid = valid[: config.val_max_examples]
    if config.early_stopping and not valid:
        raise UsageProblem(_EARLY_STOPPING)
    return Dataset(format=form, train=tuple(train), valid=tuple(valid), broken=tuple(broken))


def data_notes(data: Dataset) -> Iterator[str]:
    """Yield what is worth knowing of the rows, one sentence each."""
    if data.broken:
        left = "It is" if len(data.broken) == 1 else "They are"
        yield f"{_list_broken(data.broken)} {left} left out."
    if data.cut:
        longer = "One sequence is" if data.cut == 1 else f"{data.cut} sequences are"
        cut = "was" if data.cut == 1 else "were"
        yield f"{longer} longer than max_seq_length and {cut} cut at the end."


def idle_fields(config: TrainConfig, data: Dataset) -> Iterator[str]:
    """Yield which fields do nothing with these rows, one sentence each."""
    for name in ("steps_per_eval", "val_max_examples"):
        if getattr(config, name) and not data.valid:
            yield f"{name} does nothing: there are no rows for validation."
    marked = sum(p.idle_marks for i in (*data.train, *data.valid) for p in sequences(i))
    if marked and (config.method == "dpo" or config.response_only):
        where = "one sequence" if marked == 1 else f"{marked} sequences"
        yield (
            f"weight 1 (or train true) does nothing on messages of other roles, as in {where}: "
            "only the assistant's are learned."
        )
    if config.sft_scope == "response" and data.format == "text":
        yield "sft_scope response does nothing: a text is all response."


def find_files(path: Path) -> tuple[Path, Path | None]:
    """Return the training file and the validation file of a folder, or a single file and None.

    Raises:
        NotFound: there is no training file.
        UsageProblem: there are several.
    """
    try:
        if path.is_file():
            return path, None
        train, valid = _one_of(path, "train"), _one_of(path, "valid")
    except OSError as problem:  # a name that no file can have, a folder that is closed to us
        told = printable(str(path), 200)
        raise UsageProblem(f"{told} cannot be read: {problem.strerror}.") from problem
    if train is None:
        raise NotFound(
            f"{path / 'train.jsonl'} not found",
            hint="A data set is a folder with train.jsonl, .csv or .parquet, or one such file.",
        )
    return train, valid


def _one_of(folder: Path, stem: str) -> Path | None:
    found = [folder / f"{stem}{suffix}" for suffix in SUFFIXES]
    there = [file for file in found if file.is_file()]
    if len(there) > 1:
        names = " and ".join(file.name for file in there)
        raise UsageProblem(f"{folder} holds both {names}.", hint="Keep one of them.")
    return there[0] if there else None


def _detect(file: Path, config: TrainConfig) -> str:
    """Return the format of the first row that has one.

    Raises:
        UsageProblem: none has, or the method learns from another.
    """
    broken: list[BrokenRow] = []
    form = _first_format(file, broken)
    if form is None:
        raise UsageProblem(
            f"No row of {file} can be used. {_list_broken(broken)}"
            if broken
            else f"No row of {file} is of a format that is known here.",
            hint="Rows have messages; prompt and completion; text; or chosen and rejected.",
        )
    if (form == "dpo") != config.pairs:
        wanted = "preference pairs (chosen and rejected)" if config.pairs else "no pairs"
        raise UsageProblem(
            f"The method {config.method} learns from {wanted}, but the rows of {file.name} are "
            f"{'pairs' if form == 'dpo' else form}.",
            hint="Use sft for rows without pairs, dpo or orpo for pairs.",
        )
    return form


def _first_format(file: Path, broken: list[BrokenRow]) -> str | None:
    """Return the format of the first row that has one; add the broken rows before it."""
    for row in read_rows(file):
        if isinstance(row, BrokenRow):
            broken.append(row)
        elif (form := format_of(row.values)) in FORMATS:
            return form
    return None


def _encode_file(file: Path, form: str, encoder: Encoder) -> tuple[list[Item], list[BrokenRow]]:
    items: list[Item] = []
    broken: list[BrokenRow] = []
    for row in read_rows(file):
        if isinstance(row, BrokenRow):
            broken.append(row)
            continue
        try:
            items.append(encoder.encode(_example(row, form)))
        except RowProblem as problem:
            broken.append(BrokenRow(file=file.name, line=row.line, reason=str(problem)))
    return items, broken


def _example(row: RawRow, form: str) -> Example:
    found = format_of(row.values)
    if found not in (form, "unknown"):
        raise RowProblem(f"it is {found}, where the other rows are {form}")
    return read_example(row.values, form)


def _split(items: list[Item], config: TrainConfig) -> tuple[list[Item], list[Item]]:
    """Keep a share of the rows for validation, chosen by the seed."""
    count = round(config.valid_split * len(items))
    if not 0 < count < len(items):
        raise UsageProblem(
            f"valid_split {config.valid_split:g} of {len(items)} rows leaves one part empty."
        )
    kept = set(random.Random(config.seed).sample(range(len(items)), count))
    train = [item for index, item in enumerate(items) if index not in kept]
    return train, [items[index] for index in sorted(kept)]


def _list_broken(broken: Sequence[BrokenRow]) -> str:
    """Return broken rows as one sentence."""
    return f"{_number(len(broken))} be used: {'; '.join(_named(broken))}."


def _number(count: int) -> str:
    return "One row cannot" if count == 1 else f"{count} rows cannot"


def _named(broken: Sequence[BrokenRow]) -> Iterator[str]:
    """Yield what is wrong with rows; what is wrong with several is said once."""
    alike: dict[tuple[str, str], list[int]] = {}
    for row in broken:
        alike.setdefault((row.file, row.reason), []).append(row.line)
    for (file, reason), (first, *others) in list(alike.items())[:_SHOWN]:
        more = f" and {len(others)} more" if others else ""
        yield f"{file}, line {first}{more}: {reason}"
    if len(alike) > _SHOWN:
        yield f"and {sum(map(len, list(alike.values())[_SHOWN:]))} more"
