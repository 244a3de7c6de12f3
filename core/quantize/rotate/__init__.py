"""Rotations of weights that leave a model's output as it is, so that fewer bits lose less.

`rotating` has the two functions that others call: `rotate` and `check_rotation`.
"""
