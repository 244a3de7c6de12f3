"""What a comparison found: the table of a proof, its limits, and its guard. Imports no arrays.

Standard errors are those of clustered samples: the tokens of one sequence depend on each other, so
the sequences are what was drawn (the linearized ratio estimator, Cochran, Sampling Techniques,
6.5). Those of perplexity and of `loss_increase` come from the same sequences under both models;
`loss_increase` is paired. Comparisons draw sequences with replacement, the same ones for every
model (a paired bootstrap, 2,000 draws, seed 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.errors import ProofFailed

Role = Literal["original", "uniform", "quantized", "other"]
"""`uniform`: the baseline that a quantization has to beat; `other`: compared with nothing but the
original."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One model on the tokens of one domain, or on all."""

    tokens: int
    """Tokens that were predicted."""
    sequences: int
    """Sequences that they are from."""
    perplexity: float
    """e to the mean negative log-likelihood."""
    perplexity_se: float | None
    """Its standard error; None: there is only one sequence."""
    loss_increase: float
    """Mean negative log-likelihood minus that of the original, in nats per token."""
    loss_increase_se: float | None
    """Its paired standard error."""
    kl: float
    """Mean KL(original || model), in nats per token."""
    kl_se: float | None
    """Its standard error."""
    kl_median: float
    """Median over the tokens."""
    kl_p99: float
    """99th percentile over the tokens."""
    kl_max: float
    """The largest of a token."""
    agreement: float
    """Share of tokens whose likeliest continuation is that of the original, 0 to 1."""
    agreement_se: float | None
    """Its standard error."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model of the table."""

    name: str
    """What it is called."""
    role: Role
    """What it was measured for."""
    bits_per_weight: float
    """As `mlx_lm.utils.compute_bits_per_weight` counts: scales, biases and norms included."""
    size_bytes: int
    """Bytes of the tensors that mlx-lm loads."""
    computed: str
    """How it was computed: `float32, layer by layer`."""
    overall: Summary
    """On all tokens."""
    domains: Mapping[str, Summary]
    """On the tokens of each domain."""


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """What one model loses, relative to what another loses, on the same sequences."""

    value: float | None
    """The ratio; None: the other loses nothing."""
    low: float | None
    """Lower end of the 95% interval."""
    high: float | None
    """Upper end of it; None: unbounded."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A quantization against the uniform baseline."""

    model: str
    """The quantization's name."""
    baseline: str
    """The baseline's name."""
    kl: Ratio
    """Mean KL divergences."""
    perplexity_increase: Ratio
    """Increases of perplexity over the original."""

    @property
    def is_better(self) -> bool:
        """Whether the quantization's KL is lower beyond the paired 95% bound."""
        return self.kl.high is not None and self.kl.high < 1


@dataclass(frozen=True, kw_only=True)
class ProofTable:
    """A comparison of models with their original on held-out text."""

    entries: tuple[Entry, ...]
    """The original, then the others."""
    comparisons: tuple[Comparison, ...]
    """Every quantization against every baseline."""
    heldout: str
    """Digest of the held-out text."""
    length: int
    """Tokens of the longest sequence."""
    device: str
    """What computed it: `cpu`, `metal` or `cuda`."""
    notes: tuple[str, ...] = ()
    """What was done otherwise than usual, one sentence each."""

    @property
    def original(self) -> Entry:
        """The model that the others are compared with."""
        return self.entries[0]

    @property
    def candidates(self) -> tuple[Entry, ...]:
        """The models that are compared with it."""
        return self.entries[1:]

    def entry(self, role: Role) -> Entry | None:
        """Return the first model measured for something; None: there is none."""
        return next((entry for entry in self.entries if entry.role == role), None)

    @property
    def is_better(self) -> bool | None:
        """Whether the quantization beats every baseline in held-out KL; None: nothing to beat."""
        if not self.comparisons:
            return None
        return all(comparison.is_better for comparison in self.comparisons)


def require_limits(entry: Entry, *, min_agreement: float | None, max_kl: float | None) -> None:
    """Hold a model to limits.

    Args:
        entry: the model.
        min_agreement: least share of tokens with the same first choice, 0 to 1; None: no limit.
        max_kl: largest mean KL divergence in nats per token; None: no limit.

    Raises:
        ProofFailed: it misses one.
    """
    missed = []
    if min_agreement is not None and entry.overall.agreement < min_agreement:
        missed.append(f"top-1 agreement is {entry.overall.agreement:.4f}, below {min_agreement:g}")
    if max_kl is not None and entry.overall.kl > max_kl:
        missed.append(f"mean KL is {entry.overall.kl:.4f} nats per token, above {max_kl:g}")
    if missed:
        raise ProofFailed(
            f"{entry.name} misses its limits: {'; '.join(missed)}.",
            hint="Use more bits, or set other limits with --min-agreement and --max-kl.",
        )
