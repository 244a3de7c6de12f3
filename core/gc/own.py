"""What mlxbun itself leaves behind: in the cache, in its own cache and in its own home.

But for old logs of jobs, nothing of it is lost for good: tokenizer cards, the renamed BLAS and the
memory of compilers are made again when they are needed, and the rest are remains of processes that
have died. Settings, conversations, benchmarks, tokens and the list of jobs are never among it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.gc.locks import is_held
from core.gc.look import Obstacle, ground_at, look_at, look_at_whole, look_into
from core.gc.repository import LOCKS
from core.gc.seen import Form, Leftover
from core.paths import TEMPORARY
from core.servers import read_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from core.gc.look import Ground
    from core.gc.seen import Entry
    from core.paths import Paths

DAY = 24 * 3600.0
MONTH = 30 * DAY

RUN_FILE = "file of a dead server"

_LEVELS = 2  # of folders in ours in which something is written to a temporary name


@dataclass(frozen=True, kw_only=True)
class _Sort:
    """One sort of leftover, by form and name."""

    one: str
    many: str
    folder: str
    """Where it lies in its base; empty: in the base itself."""
    form: Form
    name: re.Pattern[str]
    least_age: float
    lock: str | None = None
    """The file in it that is held while it is in use."""


_STAGE = re.compile(r"mlxbun-(?!quantize-).+")  # core.registry.cache, core.download.layout
_STAGES = (
    _Sort(
        one="staging folder",
        many="staging folders",
        folder=LOCKS,
        form=Form.FOLDER,
        name=_STAGE,
        least_age=DAY,
    ),
    _Sort(
        one="trial link",
        many="trial links",
        folder=LOCKS,
        form=Form.LINK,
        name=_STAGE,
        least_age=DAY,
    ),
    _Sort(
        one="unfinished file",
        many="unfinished files",
        folder=LOCKS,
        form=Form.FILE,
        name=_STAGE,
        least_age=DAY,
    ),
)
_UNFINISHED = _Sort(
    one="unfinished quantization",
    many="unfinished quantizations",
    folder=LOCKS,
    form=Form.FOLDER,
    name=re.compile(r"mlxbun-quantize-[0-9a-f]{16}"),  # core.quantize.resume
    least_age=DAY,
    lock="lock",
)
_SCRATCH = _Sort(
    one="scratch folder",
    many="scratch folders",
    folder="",
    form=Form.FOLDER,
    name=re.compile(r"starter-.+"),  # core.download.package_index
    least_age=DAY,
)
_KEPT_FOR_SPEED = (
    _Sort(
        one="tokenizer card",
        many="tokenizer cards",
        folder="tokenizers",
        form=Form.FILE,
        name=re.compile(r"[0-9a-f]{40}\.json"),  # core.engine.tokenizer_card
        least_age=MONTH,
    ),
    _Sort(
        one="prepared BLAS library",
        many="prepared BLAS libraries",
        folder="blas",
        form=Form.FOLDER,
        name=re.compile(r"openblas-[0-9a-f]{12}"),  # core.machine.blas
        least_age=MONTH,
    ),
    _Sort(
        one="memory of a compiler",
        many="memories of compilers",
        folder="compilers",
        form=Form.FILE,
        name=re.compile(r"[0-9a-f]{16}"),  # core.machine.probe
        least_age=MONTH,
    ),
)

_OLD_LOGS = (
    _Sort(
        one="log of an old job",
        many="logs of old jobs",
        folder="jobs",
        form=Form.FILE,
        name=re.compile(r"[0-9a-f]{8}\.ndjson"),  # core.jobs.store
        least_age=3 * MONTH,
    ),
    _Sort(
        one="output of an old job",
        many="outputs of old jobs",
        folder="jobs",
        form=Form.FILE,
        name=re.compile(r"[0-9a-f]{8}\.out"),  # core.jobs.job
        least_age=3 * MONTH,
    ),
)


def find_leftovers(ground: Ground | None, paths: Paths) -> tuple[Leftover, ...]:
    """Return what mlxbun has left; what cannot be looked at is passed over.

    Args:
        ground: the Hugging Face cache; None: there is none.
        paths: our folders.
    """
    found: list[Leftover] = []
    cache, home = _ground(paths.cache), _ground(paths.home)
    if not is_held(paths.cache / "starter.lock"):  # else somebody fetches the starter
        found += [_find(sort, ground) for sort in _STAGES] if ground else []
        found += [_find(_SCRATCH, cache)] if cache else []
    found += [_find(_UNFINISHED, ground)] if ground else []
    if cache:
        found += [*(_find(sort, cache) for sort in _KEPT_FOR_SPEED), _temporary(cache)]
    if home:
        found += [*(_find(sort, home) for sort in _OLD_LOGS), _temporary(home)]
        found += [_run_files(home, paths)]
    return tuple(each for each in found if each.entries)


def _find(sort: _Sort, ground: Ground) -> Leftover:
    fitting = [
        entry
        for entry in _inside(ground.root / sort.folder, ground)
        if entry.form is sort.form and sort.name.fullmatch(entry.path.name)
        if sort.lock is None or not is_held(entry.path / sort.lock)
    ]
    return Leftover(
        one=sort.one,
        many=sort.many,
        base=ground.root,
        entries=tuple(_whole(fitting, ground)),
        least_age=sort.least_age,
    )


def _temporary(ground: Ground) -> Leftover:
    """Return files that were written to a temporary name and never got their own."""
    found: list[Entry] = []
    _search(ground.root, ground, found.append, _LEVELS)
    return Leftover(
        one="half-written file",
        many="half-written files",
        base=ground.root,
        entries=tuple(found),
        least_age=DAY,
    )


def _search(folder: Path, ground: Ground, take: Callable[[Entry], object], levels: int) -> None:
    for entry in _inside(folder, ground):
        if entry.form is Form.FILE and TEMPORARY.fullmatch(entry.path.name):
            take(entry)
        elif entry.form is Form.FOLDER and levels:
            _search(entry.path, ground, take, levels - 1)


def _run_files(ground: Ground, paths: Paths) -> Leftover:
    stale = {path.name for path in read_servers(paths.run_folder).stale}
    inside = _inside(ground.root / paths.run_folder.name, ground)
    return Leftover(
        one=RUN_FILE,
        many="files of dead servers",
        base=ground.root,
        entries=tuple(each for each in inside if each.path.name in stale),
        least_age=0.0,
    )


def _inside(folder: Path, ground: Ground) -> list[Entry]:
    """Return what lies in a folder of a ground; nothing, where it does not belong to it."""
    try:
        if folder != ground.root:
            ground.check(look_at(folder))
        return look_into(folder)
    except (OSError, Obstacle):
        return []


def _whole(entries: Iterable[Entry], ground: Ground) -> Iterator[Entry]:
    for entry in entries:
        try:
            if entry.form is Form.FOLDER:
                ground.check(entry)
            yield look_at_whole(entry, ground)
        except (OSError, Obstacle):
            continue


def _ground(folder: Path) -> Ground | None:
    try:
        return ground_at(folder)
    except OSError:
        return None
