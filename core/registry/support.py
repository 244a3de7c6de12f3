"""Whether mlxbun runs a model, and why not: facts and mlx-lm's architectures in, words out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.registry.files import printable
from core.registry.forms import FP8

if TYPE_CHECKING:
    from core.registry.architectures import Architectures
    from core.registry.facts import Facts

_SHOWN = 3  # keys that a reason names

_KINDS = {
    "an encoder, not a model that generates text": (
        "albert bert bge camembert deberta deberta-v2 distilbert electra ernie esm eurobert "
        "jina_bert modernbert mpnet new nomic_bert roberta xlm-roberta xlnet"
    ),
    "a speech model, not a language model": (
        "bark clap dac encodec hubert kokoro mms moonshine musicgen parakeet seamless_m4t "
        "seamless_m4t_v2 speecht5 vits wav2vec2 wav2vec2-bert wav2vec2-conformer whisper"
    ),
    "a vision model, not a language model": (
        "align altclip beit blip clip clipseg convnext depth_anything detr dinov2 dinov3_vit dpt "
        "grounding-dino mobilevit owlvit resnet rt_detr sam sam2 segformer siglip siglip2 swin "
        "table-transformer vit vitmatte vit_mae yolos zoedepth"
    ),
    "an encoder-decoder model, which mlx-lm does not run": (
        "bart blenderbot fsmt led longt5 m2m_100 marian mbart mt5 nllb-moe pegasus prophetnet t5 "
        "t5gemma umt5"
    ),
}
_KIND_OF_TYPE = {name: kind for kind, names in _KINDS.items() for name in names.split()}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a model runs here."""

    supported: bool
    """Its files are whole, and mlx-lm loads its kind."""
    reason: str | None = None
    """Why not, as a clause."""
    note: str | None = None
    """What is worth knowing about one that runs, as a clause."""


def judge(facts: Facts, known: Architectures) -> Verdict:
    """Return whether mlxbun runs a model."""
    reason = facts.problem or facts.unsupported or _unknown(facts, known)
    if reason is not None:
        return Verdict(supported=False, reason=reason)
    notes = [facts.note] if facts.note else []
    if facts.abilities.vision or facts.abilities.audio:
        notes.append("its text part alone is loaded")
    return Verdict(supported=True, note="; ".join(notes) or None)


def _unknown(facts: Facts, known: Architectures) -> str | None:
    """Return why mlx-lm has no module that loads a model, or None when it has one.

    A config.json without a key that the module asks for is refused by it.
    """
    if facts.model_type is None:
        return "config.json names no model_type"
    if not known.types:
        return "mlx-lm is not installed"
    module = known.module_for(facts.model_type, facts.architectures)
    if module is None:
        return why_not_loaded(facts.model_type, known)
    if facts.needs == FP8 and module not in known.read_fp8:
        return f"its weights are FP8, which mlx-lm does not load for {facts.model_type}"
    lacking = [key for key in known.required.get(module, ()) if key not in facts.keys]
    return f"config.json has no {_listed(lacking)}" if lacking else None


def why_not_loaded(model_type: str, known: Architectures) -> str:
    """Return what a type of model is that mlx-lm has no module for, as a clause."""
    if kind := _KIND_OF_TYPE.get(model_type):
        return f"it is {kind}"
    mlx_lm = f"mlx-lm {known.version}" if known.version else "mlx-lm"
    return f"{mlx_lm} does not load the type {printable(model_type, 120)}"


def _listed(names: list[str]) -> str:
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN])} and {len(names) - _SHOWN} more"
