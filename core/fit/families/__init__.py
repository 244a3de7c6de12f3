"""From a config.json to a model's shape: one table of what mlx-lm builds for each architecture.

`table` names the architectures; `attention` and `recurrent` hold the readers that it refers to.
Source of every reader: `make_cache` and the attention classes of mlx_lm/models/*.py, mlx-lm 0.32.2.
"""

from core.fit.families.table import read_shape

__all__ = ["read_shape"]
