"""The card: README.md, of which the part between our two markers is ours and the rest is not.

Pure: facts in, text out. A card that a person has written is never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from core.registry.files import printable
from core.units import format_bytes
from core.upload.front_matter import split_card, write_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from core.provenance import EvalFigure, Origin
    from core.registry.storage import Quantization
    from core.upload.about import About
    from core.upload.target import Target

README = "README.md"
BEGIN = "<!-- mlxbun:begin -->"
END = "<!-- mlxbun:end -->"

Owner = Literal["nobody", "ours", "somebody"]
"""Whose a card is: `nobody` has written one, or only its block; `ours` has both markers."""

_HUB = "https://huggingface.co"
_RELATIONS = {
    "quantized": "quantized from",
    "adapter": "an adapter for",
    "finetune": "fine-tuned from",
    "merge": "merged from",
}
_TAGS = {"lora": "lora", "dora": "dora"}


@dataclass(frozen=True, kw_only=True)
class Card:
    """What we have to say about something."""

    block: str
    """The YAML block of a new card, with its dashes; empty for none."""
    part: str
    """Our part, with its markers and a line break at its end."""

    @property
    def whole(self) -> str:
        """A new card."""
        return f"{self.block}\n{self.part}" if self.block else self.part


def write_card(about: About, target: Target) -> Card:
    """Return the card of what is uploaded to a repository."""
    return Card(block=write_block(_front(about)), part=f"{BEGIN}\n{_body(about, target)}{END}\n")


def owner_of(text: str | None) -> Owner:
    """Return whose a card is; None: there is none."""
    if text is None:
        return "nobody"
    if text.count(BEGIN) == text.count(END) == 1 and text.index(BEGIN) < text.index(END):
        return "ours"
    return "somebody" if split_card(text).body.strip() else "nobody"


def updated(text: str | None, card: Card) -> str:
    """Return a card with our part renewed and all the rest of it as it was.

    Args:
        text: a card of `nobody` or of `ours`; None: there is none.
        card: what we have to say.
    """
    if text is None or (owner_of(text) == "nobody" and not split_card(text).block):
        return card.whole
    if owner_of(text) == "nobody":
        return f"{split_card(text).block.rstrip()}\n\n{card.part}"
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return before + card.part.rstrip("\n") + after


def _front(about: About) -> dict[str, Any]:
    """Return what the Hub reads; what is not known is not there."""
    languages = list(about.terms.language)
    front: dict[str, Any] = {
        **about.terms.license,
        "language": languages[0] if len(languages) == 1 else languages,
    }
    if about.kind == "dataset":
        category = about.data.size_category if about.data else None
        front |= {"size_categories": [category] if category else []}
    elif about.kind != "files":
        front |= {
            "library_name": "mlx",
            "pipeline_tag": about.terms.pipeline_tag,
            "base_model": about.base.repo_id if about.base else None,
            "base_model_relation": about.relation if about.base else None,
            "datasets": [origin.repo_id for origin in about.datasets],
            "tags": _tags(about),
            "quantization": _quantization(about.quantization),
        }
    return {key: value for key, value in front.items() if value not in (None, [], {})}


def _tags(about: About) -> list[str]:
    packed = about.quantization
    tags = ["mlx"]
    if about.method in _TAGS:
        tags.append(_TAGS[about.method])
    if packed is not None and packed.bits and not packed.mixed:
        tags.append(f"{packed.bits}-bit")
    return tags


def _quantization(packed: Quantization | None) -> dict[str, Any]:
    if packed is None:
        return {}
    told = {"bits": packed.bits, "group_size": packed.group_size, "mode": packed.mode}
    more = {"mixed_bits": list(packed.widths)} if packed.mixed else {}
    return {key: value for key, value in told.items() if value is not None} | more


def _body(about: About, target: Target) -> str:
    sections = [
        f"# {target.repo_id}\n\n{_opening(about)}",
        _section("Recipe", _table(("", ""), about.recipe)),
        _section("Size", _table(("", ""), about.sizes)),
        _section("Files", _data_table(about)),
        _section("Evaluation", _figures(about.figures)),
        _section("Use", _use(about, target)),
        _section("Made with", _versions(about)),
    ]
    return "\n".join(section for section in sections if section)


def _opening(about: About) -> str:
    """Return the first sentence."""
    things = {"model": "A model for", "adapter": "An adapter for", "dataset": "A data set"}
    if about.kind == "files":
        return ""
    if about.kind == "dataset":
        return "A data set.\n"
    mlx = "[MLX](https://github.com/ml-explore/mlx)"
    if about.base is None:
        return f"{things[about.kind]} {mlx}.\n"
    if about.kind == "adapter":
        return f"{things['adapter']} {_link(about.base)}, made for {mlx}.\n"
    words = _RELATIONS.get(about.relation or "", "made from")
    return f"{things[about.kind]} {mlx}, {words} {_link(about.base)}.\n"


def _link(origin: Origin) -> str:
    link = f"[{origin.repo_id}]({_HUB}/{origin.repo_id})"
    return f"{link} (revision `{_cell(origin.revision)}`)" if origin.revision else link


def _section(title: str, content: str) -> str:
    return f"## {title}\n\n{content}" if content else ""


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    if not lines:
        return ""
    top = [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}"]
    return "\n".join([*top, *lines]) + "\n"


def _data_table(about: About) -> str:
    if about.data is None or not 1 < len(about.data.files) <= 50:
        return ""
    rows = [
        (file.name, "" if file.rows is None else f"{file.rows:,}", format_bytes(file.size))
        for file in about.data.files
    ]
    return _table(("file", "rows", "size"), rows)


def _figures(figures: Sequence[EvalFigure]) -> str:
    """Return a table of figures, without the columns that none of them has."""
    columns = {
        "": [figure.name for figure in figures],
        "value": [_measured(figure.value, figure.unit) for figure in figures],
        "± (SE)": [_measured(figure.error, figure.unit) for figure in figures],
        "base model": [_measured(figure.base_value, figure.unit) for figure in figures],
        "uniform": [_measured(figure.uniform_value, figure.unit) for figure in figures],
        "data": [figure.data or "" for figure in figures],
    }
    told = {heading: cells for heading, cells in columns.items() if any(cells)}
    return _table(list(told), zip(*told.values(), strict=True))


def _measured(value: float | None, unit: str | None) -> str:
    if value is None:
        return ""
    return f"{value:.6g}{'' if unit is None else f' {unit}'}"


def _use(about: About, target: Target) -> str:
    """Return how to run it, in commands."""
    if about.kind == "dataset":
        return _use_data(about, target)
    lines = [f"mlxbun download {target}"]
    if about.kind == "model":
        lines.append(f"mlxbun serve {target}")
        if str(target) == target.repo_id:
            lines.append(f'mlx_lm.generate --model {target.repo_id} --prompt "Hello"')
    elif about.kind == "adapter" and about.base is not None:
        base = about.base.repo_id
        lines.append("# FOLDER is where the first command says that it lies")
        lines.append(f'mlx_lm.generate --model {base} --adapter-path FOLDER --prompt "Hello"')
    return _code("sh", lines)


def _use_data(about: About, target: Target) -> str:
    lines = ["from datasets import load_dataset", ""]
    revision = "" if str(target) == target.repo_id else f', revision="{target.branch}"'
    lines.append(f'data = load_dataset("{target.repo_id}"{revision})')
    shown = _code("python", lines)
    if about.data is not None and about.data.format and str(target) == target.repo_id:
        train = f"mlx_lm.lora --train --model MODEL --data {target.repo_id}"
        shown += "\n" + _code("sh", [train])
    return shown


def _code(language: str, lines: Sequence[str]) -> str:
    return f"```{language}\n" + "\n".join(lines) + "\n```\n"


def _versions(about: About) -> str:
    return "".join(f"- {_cell(name)} {_cell(v)}\n" for name, v in about.versions.items())


def _cell(text: str | None) -> str:
    """Return a text from outside as it can stand in a table: no markup, no marker of ours."""
    plain = printable(text or "", 300)
    for mark, written in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("`", "'")):
        plain = plain.replace(mark, written)
    return plain
