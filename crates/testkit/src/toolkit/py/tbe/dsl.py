"""The language of operators: expressions of tensors, their schedule, and the build."""
from tbe.tvm.runtime import cce_runtime

CUBE = ("conv", "matmul", "batch_matmul")


class Tensor:
    """A tensor by the expression that makes it."""

    def __init__(self, text, cube=False):
        self.text, self.cube = text, cube


class Schedule:
    """How an expression is computed. The stand-in has one way."""

    def __init__(self, result):
        self.result = result


def placeholder(desc, name):
    """An input, by its description; a list of inputs; or what stands for one that is not given."""
    if desc is None:
        return Tensor("null %s" % name)
    if isinstance(desc, (list, tuple)):
        return Tensor("[%s]" % "; ".join(placeholder(item, name).text for item in desc))
    return Tensor("%s %s %s%s" % (name, desc["dtype"], desc["format"], list(desc["shape"])))


def call(instruction, tensors, **attrs):
    """One instruction on tensors."""
    words = ", ".join(tensor.text for tensor in tensors)
    named = "".join(", %s=%r" % item for item in sorted(attrs.items()))
    cube = instruction in CUBE or any(tensor.cube for tensor in tensors)
    return Tensor("%s(%s%s)" % (instruction, words, named), cube)


def auto_schedule(result):
    return Schedule(result)


def build(schedule, config):
    """Compiles. `config` has the kernel's `name`, its `tensor_list` of descriptions, and the function `op`."""
    cce_runtime.build(config, schedule.result.text, schedule.result.cube)
