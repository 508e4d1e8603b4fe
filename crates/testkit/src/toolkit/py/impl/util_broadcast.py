"""Helpers of operators of two inputs."""
from .util_common import total


def broadcast_kind(shapes):
    """Whether shapes are equal, one is a number, or they have to be stretched."""
    if all(shape == shapes[0] for shape in shapes):
        return "equal"
    return "scalar" if any(total(shape) == 1 for shape in shapes) else "stretched"
