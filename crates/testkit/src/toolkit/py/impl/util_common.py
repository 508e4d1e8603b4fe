"""Helpers of operators."""


def total(shape):
    """The number of elements, -1 if it is not known."""
    count = 1
    for dim in shape:
        count = -1 if dim < 0 or count < 0 else count * dim
    return count


def tensors_of(operands):
    """The descriptions among the arguments of an operator, lists as they are."""
    return [operand for operand in operands if operand is None or isinstance(operand, (dict, list, tuple))]
