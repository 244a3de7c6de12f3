"""What one upload will do, worked out without any network. Reads files, writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadModelFiles, UsageProblem
from core.registry.adapters import fit_to_own_base
from core.registry.files import printable, read_bytes
from core.upload.about import learn
from core.upload.belongs import Selection, fits
from core.upload.card import README, Card, owner_of, updated, write_card
from core.upload.checks import check_files
from core.upload.front_matter import split_card
from core.upload.gather import LocalFile, Skipped, gather
from core.upload.kinds import FORCE_HINT, detect_kind, repo_type_of

if TYPE_CHECKING:
    from core.upload.card import Owner
    from core.upload.kinds import Kind
    from core.upload.target import RepoType, Target

_MOST_README = 4 * 2**20  # bytes
_MESSAGES = {
    "model": "Upload model",
    "adapter": "Upload adapter",
    "dataset": "Upload data",
    "files": "Upload files",
}


@dataclass(frozen=True, kw_only=True)
class UploadRequest:
    """What is to be uploaded, and how."""

    source: Path
    """A folder, or a file of data."""
    target: Target
    """Where to."""
    wanted: RepoType | None = None
    """The type that the user names; None: as the files look."""
    private: bool = False
    """Whether a repository that is made is private."""
    message: str | None = None
    """The commit's; None: a usual one."""
    selection: Selection = field(default_factory=Selection)
    """Which files."""
    card: bool = True
    """Whether a card is written."""
    keep_card: bool = False
    """Whether the card is also written into the folder, once it has been uploaded."""


@dataclass(frozen=True, kw_only=True)
class CardPlan:
    """What becomes of README.md."""

    owner: Owner | None
    """Whose the one in the folder is; None: there is none."""
    text: str | None
    """What is uploaded, should the repository have no card of its own; None: no card of ours."""
    card: Card | None
    """What we have to say; None: nothing."""
    why: str
    """What happens to it, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class UploadPlan:
    """One upload, before the first byte."""

    request: UploadRequest
    """What was asked for."""
    kind: Kind
    """What the source holds."""
    repo_type: RepoType
    """The type of the repository."""
    files: tuple[LocalFile, ...]
    """What is uploaded, but for a card that is made, by name."""
    skipped: tuple[Skipped, ...]
    """What is not."""
    card: CardPlan
    """What becomes of README.md."""
    notes: tuple[str, ...]
    """What is worth knowing before it goes out, in sentences."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all files, the card that is made not among them."""
        return sum(file.size for file in self.files)

    @property
    def message(self) -> str:
        """The commit's message."""
        return self.request.message or f"{_MESSAGES[self.kind]} with mlxbun"


def plan_upload(request: UploadRequest, *, hub_cache: Path) -> UploadPlan:
    """Return what an upload would do. Opens no network and writes nothing.

    Args:
        request: what is asked for.
        hub_cache: where cards of base models are looked for.

    Raises:
        NotFound: there is nothing at the path, a pattern fits nothing, or nothing is left.
        BadModelFiles: what is there is not whole, cannot be read, or is nothing that we know.
        UsageProblem: the request contradicts itself.
    """
    _check_request(request)
    source = request.source
    try:
        kind = detect_kind(source, request.wanted)
        source = source.resolve()
        if kind == "adapter" and request.wanted is None:
            _check_base(source, hub_cache)
        gathered = gather(source, kind, request.selection)
        check_files(gathered.files)
        return _planned(request, kind, gathered.files, gathered.skipped, hub_cache)
    except (OSError, RuntimeError, ValueError) as problem:  # a loop of links, a name with a zero
        said = getattr(problem, "strerror", None) or "it is no path"
        raise BadModelFiles(
            f"{printable(str(source), 200)} cannot be read: {said}.", hint="Name another path."
        ) from None


def _check_base(adapter: Path, hub_cache: Path) -> None:
    """Refuse an adapter that does not fit its own base, where that is on this disk."""
    fit = fit_to_own_base(adapter, hub_cache=hub_cache)
    if fit and fit.problem:
        raise BadModelFiles(fit.problem, hint=f"Train it again. {FORCE_HINT}")


def _planned(
    request: UploadRequest,
    kind: Kind,
    files: tuple[LocalFile, ...],
    skipped: tuple[Skipped, ...],
    hub_cache: Path,
) -> UploadPlan:
    source = request.source.resolve()
    local = _local_card(source)
    front = split_card(local or "").data
    others = tuple(file for file in files if file.name != README)
    about = learn(source, kind, others, hub_cache=hub_cache, front=front)
    card = _plan_card(request, write_card(about, request.target), local, files)
    if card.text is not None:  # ours takes its place
        files = others
    notes = [f"{told} tells where things lie on this machine." for told in about.paths_in]
    return UploadPlan(
        request=request,
        kind=kind,
        repo_type=repo_type_of(kind, request.wanted),
        files=files,
        skipped=skipped,
        card=card,
        notes=tuple(notes),
    )


def _plan_card(
    request: UploadRequest, card: Card, local: str | None, files: tuple[LocalFile, ...]
) -> CardPlan:
    owner = None if local is None else owner_of(local)
    why = _why_no_card(request, owner, files)
    if why is not None:
        return CardPlan(owner=owner, text=None, card=None, why=why)
    said = {
        None: "README.md is written by mlxbun",
        "nobody": "README.md has no text: mlxbun adds its own",
        "ours": "README.md is renewed between mlxbun's markers",
    }[owner if owner != "somebody" else None]
    where = "and into the folder" if request.keep_card else "and not into the folder"
    return CardPlan(
        owner=owner,
        text=updated(local, card),
        card=card,
        why=f"{said}; it goes to the Hub {where}.",
    )


def _why_no_card(
    request: UploadRequest, owner: Owner | None, files: tuple[LocalFile, ...]
) -> str | None:
    """Return why no card is written, as a sentence, or None when one is."""
    if fits(README, request.selection.exclude):
        return "No card is written (--exclude)."
    if owner == "somebody":
        return "README.md is somebody's own: it is uploaded as it is."
    if not request.card:
        return "No card is written (--no-card)."
    other = next(
        (f.name for f in files if f.name.lower() == "readme.md" and f.name != README), None
    )
    if other is not None:
        return f"{printable(other)} stands in for README.md: no card is written."
    return None


def _local_card(source: Path) -> str | None:
    """Return the card in a folder.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return read_bytes(source / README, limit=_MOST_README).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_request(request: UploadRequest) -> None:
    if request.keep_card and not request.card:
        raise UsageProblem("--write-card and --no-card exclude each other.")
    selected = request.selection.include or request.selection.exclude
    if selected and request.source.is_file():
        raise UsageProblem("--include and --exclude choose files of a folder, and this is a file.")
    if request.keep_card and fits(README, request.selection.exclude):
        raise UsageProblem(f"--write-card and an --exclude that fits {README} exclude each other.")
    if request.keep_card and request.source.is_file():
        raise UsageProblem(
            "--write-card needs a folder to write into, and this is a file.",
            hint="Leave it out: the card goes to the Hub all the same.",
        )
    if request.keep_card and _is_cached(request.source):
        raise UsageProblem(
            "--write-card would write into a snapshot of the Hugging Face cache.",
            hint="Leave it out, or copy the folder first.",
        )
    if request.message is not None and not request.message.strip():
        raise UsageProblem("A commit needs a message.", hint="Leave --message out for a usual one.")


def _is_cached(source: Path) -> bool:
    return any(part.startswith(("models--", "datasets--")) for part in source.absolute().parts)
