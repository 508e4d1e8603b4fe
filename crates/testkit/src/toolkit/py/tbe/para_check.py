"""Checks of an operator's arguments. Each failure is an exception of a dictionary with a code, and a text."""
import functools

from tbe.common.platform import platform_info

REQUIRED_INPUT, OPTION_INPUT, DYNAMIC_INPUT = "required_input", "option_input", "dynamic_input"
REQUIRED_OUTPUT, OPTION_OUTPUT, DYNAMIC_OUTPUT = "required_output", "option_output", "dynamic_output"
ATTR, KERNEL_NAME = "attr", "kernel_name"

RANKS = {"NC1HWC0": 5, "FRACTAL_Z": 4, "NDC1HWC0": 6, "NCHW": 4, "NHWC": 4, "HWCN": 4}
SPELLINGS = {"float": "float32"}
WITHOUT_BFLOAT16 = ("Ascend910", "Ascend310P", "Ascend310", "Ascend610")


def fail(code, text, **arguments):
    raise RuntimeError(dict(arguments, errCode=code), text)


def check_op_params(*kinds):
    """Checks that what must be given is given, and is a tensor, a list of tensors, or a name."""
    def decorate(func):
        @functools.wraps(func)
        def run(*arguments, **named):
            names = func.__code__.co_varnames
            for name, kind, value in zip(names, kinds, arguments):
                _check_kind(func.__name__, name, kind, value)
            return func(*arguments, **named)
        return run
    return decorate


def _check_kind(op_name, name, kind, value):
    if kind.startswith("required") and not isinstance(value, dict):
        fail("E80001", "In op[%s], the mandatory parameter[%s] is missed." % (op_name, name), op_name=op_name,
             param_name=name)
    if kind.startswith("dynamic") and not isinstance(value, (list, tuple)):
        fail("E80003", "In op[%s], the parameter[%s] should be a list." % (op_name, name), op_name=op_name,
             param_name=name)
    if kind == KERNEL_NAME and not (isinstance(value, str) and value.replace("_", "a").isalnum()):
        fail("E80020", "In op[%s], the kernel name [%s] is invalid." % (op_name, value), op_name=op_name,
             param_name=name)


def check_forms(op_name, ports, tensors):
    """Checks element types and formats: there must be a column that all tensors are in. Ports without formats take
    any; then all tensors must have the same."""
    given = [(port, tensor) for port, value in zip(ports, tensors)
             for tensor in (value if isinstance(value, (list, tuple)) else [value]) if tensor is not None]
    for port, tensor in given:
        dtype = tensor["dtype"].lower()
        if dtype not in port["dtype"] or dtype == "bfloat16" and _is_old():
            fail("E80008", "In op[%s], the parameter[%s]'s dtype should be one of [%s], but actually is [%s]."
                 % (op_name, port["name"], ", ".join(sorted(set(port["dtype"]))), dtype), op_name=op_name,
                 param_name=port["name"], expected_data_type_list=sorted(set(port["dtype"])), dtype=dtype)
        form = tensor["format"]
        if port["format"] and form not in port["format"]:
            expected = sorted(set(port["format"]))
            fail("E60004", "In op[%s], the format of parameter[%s] should be one of [%s], but actually is [%s]."
                 % (op_name, port["name"], ", ".join(expected), form), op_name=op_name, param_name=port["name"],
                 expected_format_list=expected, format=form)
        _check_rank(op_name, port["name"], form, tensor["shape"])
    columns = range(len(ports[0]["dtype"]))
    if not any(all(_is_in(port, tensor, column) for port, tensor in given) for column in columns):
        fail("E80013", "In op[%s], the dtypes and formats of the parameters do not go together." % op_name,
             op_name=op_name)


def _is_old():
    return platform_info.get_soc_spec("SHORT_SOC_VERSION") in WITHOUT_BFLOAT16


def _is_in(port, tensor, column):
    form = port["format"][column] if port["format"] else tensor["format"]
    return SPELLINGS.get(port["dtype"][column], port["dtype"][column]) == tensor["dtype"].lower() and form == tensor["format"]


def _check_rank(op_name, name, form, shape):
    rank = RANKS.get(form)
    if rank is not None and list(shape) != [-2] and len(shape) != rank:
        fail("E80012", "In op[%s], the num of dimensions of input/output[%s] should be [%d], but actually is [%d]."
             % (op_name, name, rank, len(shape)), op_name=op_name, param_name=name, dim=len(shape))


def ports(*rows):
    """Ports from lists as the operator information has them."""
    def listed(text):
        return tuple(item for item in text.split(",") if item)
    return [{"name": name, "dtype": tuple(SPELLINGS.get(item, item) for item in listed(dtypes)),
             "format": listed(formats)} for name, dtypes, formats in rows]
