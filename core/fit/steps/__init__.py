"""What a model's layers compute in one step of the engine, as operations on a tape.

Sizes are those of mlx-lm's layers, in the form that MLX gives them: on a CPU, norms, rotations and
attention are chains of small operations; on a GPU each is one kernel. The numbers of dispatches are
counted off MLX's graphs (`mx.export_to_dot`) and matter only for how far dispatching runs ahead.

Letters: B rows, T tokens of each in this step, S tokens that they have then, H heads, D head size.
"""

from core.fit.steps.pieces import Step
from core.fit.steps.writer import write_layers, write_logits

__all__ = ["Step", "write_layers", "write_logits"]
