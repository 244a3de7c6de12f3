"""What is made small, from log-probabilities of tokens.

- SFT: the mean negative log-likelihood of the tokens that count.
- DPO: -log sigmoid(beta ((p_c - ref_c) - (p_r - ref_r))) over summed log-probabilities of the
  responses, the reference being the base model (Rafailov et al. 2023, arXiv:2305.18290,
  equation 7).
- ORPO: NLL(chosen) - lambda log sigmoid(log odds ratio), the latter being
  (m_c - m_r) - (log(1 - e^m_c) - log(1 - e^m_r)), m the mean log-probability of a response's tokens
  (Hong et al. 2024, arXiv:2403.07691, equations 4, 6 and 7).

All take sums and return sums, so that batches whose gradients are added make the large batch:
who calls divides by the tokens and the pairs of the whole step. `P` pairs.
"""

from __future__ import annotations

import mlx.core as mx

# exp(m) of a response that is certain rounds to 1, and its odds are infinite.
_CERTAIN = -1e-6


def log_sigmoid(x: mx.array) -> mx.array:
    """Return log sigmoid(x) without overflow."""
    return -mx.logaddexp(mx.array(0.0), -x)


def log_one_minus_exp(x: mx.array) -> mx.array:
    """Return log(1 - e^x) for x below 0."""
    return mx.log(-mx.expm1(mx.minimum(x, _CERTAIN)))


def reward_margins(
    chosen: mx.array,
    rejected: mx.array,
    reference_chosen: mx.array,
    reference_rejected: mx.array,
    beta: float,
) -> mx.array:
    """Return by how much DPO's implicit reward of each chosen response is the greater [P].

    Args:
        chosen: log-probabilities of the chosen responses, summed over their tokens [P].
        rejected: of the rejected ones [P].
        reference_chosen: the base model's of the chosen ones [P].
        reference_rejected: the base model's of the rejected ones [P].
        beta: how strongly the reference holds.
    """
    return beta * ((chosen - reference_chosen) - (rejected - reference_rejected))


def dpo_sum(margins: mx.array) -> mx.array:
    """Return the summed DPO loss of pairs, from `reward_margins` [P]."""
    return -log_sigmoid(margins).sum()


def odds_ratio_sum(chosen: mx.array, rejected: mx.array) -> mx.array:
    """Return ORPO's summed -log sigmoid(log odds ratio) of pairs.

    Args:
        chosen: mean log-probabilities of the chosen responses' tokens [P].
        rejected: of the rejected ones [P].
    """
    log_odds = (chosen - rejected) - (log_one_minus_exp(chosen) - log_one_minus_exp(rejected))
    return -log_sigmoid(log_odds).sum()
